"""What Triton's interpreter lacks: the mathematical functions of libdevice, and loops with NumPy 2.4."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Elementwise = Callable[..., Any]
_NUMPY = """
tanh exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh cbrt floor ceil trunc rint hypot copysign fmod
""".split()  # noqa: SIM905
_INVERSE = ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")
_FUNCTIONS: dict[str, Elementwise] = {
    **{name: getattr(np, name) for name in _NUMPY},
    **{name: getattr(np, f"arc{name[1:]}") for name in _INVERSE},
    "abs": np.abs,
    "fabs": np.abs,
    "pow": np.power,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp10": lambda x: np.power(10.0, x),
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "fma": lambda x, y, z: x * y + z,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_sinf": np.sin,
    "fast_cosf": np.cos,
    "fast_powf": np.power,
    "fast_dividef": np.divide,
    "div_rn": np.divide,
}


def complete() -> None:
    """Adds it, in this process; to be called before any kernel's file is imported."""
    _mend_loops()
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as of_cuda

    for module in (libdevice, of_cuda):
        for name in [name for name, value in vars(module).items() if _is_function(value, module)]:
            function = _FUNCTIONS.get(name)
            setattr(module, name, _on_tensors(function) if function is not None else _unknown(name))


def _mend_loops() -> None:
    """Triton before 3.9 makes numbers of arrays with one element, which NumPy 2.4 refuses: loops up to an argument."""
    from triton.runtime import interpreter

    if not hasattr(interpreter, "_LangPatchScope"):
        return
    patched = interpreter._patch_lang_tensor

    def patch(tensor: Any, scope: Any) -> None:
        patched(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch


def _is_function(value: Any, module: Any) -> bool:
    return callable(value) and getattr(value, "__module__", "") in (module.__name__, "triton.language.core")


def _on_tensors(function: Elementwise) -> Callable[..., Any]:
    def call(*arguments: Any, _semantic: Any = None) -> Any:
        import triton.language as tl
        from triton.language.semantic import TritonSemantic
        from triton.runtime.interpreter import TensorHandle, interpreter_builder

        tensors = [TritonSemantic(interpreter_builder).to_tensor(argument) for argument in arguments]
        kind = next((t.dtype for t in tensors if t.dtype.is_floating()), tensors[0].dtype).scalar
        found = np.asarray(function(*[t.handle.data for t in tensors]))
        if found.dtype == np.bool_:
            kind = tl.int32
        largest = max(tensors, key=lambda t: t.handle.data.size)
        dtype = np.int32 if kind is tl.int32 else largest.handle.data.dtype
        shape = largest.type.with_element_ty(kind) if largest.type.is_block() else kind
        return tl.core.tensor(TensorHandle(found.astype(dtype), kind), shape)

    return call


def _unknown(name: str) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"libdevice.{name} cannot be interpreted; it needs a GPU")

    return call
