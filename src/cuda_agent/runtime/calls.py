"""Python functions that check their arguments and call a C function through ctypes, which releases the GIL.

Calls count in a kernel's measured time, so each function is generated from its signature: one expression that accepts
the usual arguments, and a careful path that accepts the unusual ones and words the errors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch

from cuda_agent.runtime.signatures import INTEGER_BITS, Function, Parameter

_CTYPES: dict[str, Any] = {
    **{name: getattr(ctypes, f"c_{name}") for name in INTEGER_BITS},
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
}
_RAW_16_BITS = ("uint16", "float16", "bfloat16")


_disabled = False


def disable_kernels() -> None:
    """Kernels loaded from now on check their arguments and do nothing: what does not change then did not need them."""
    global _disabled
    _disabled = True


def kernels_disabled() -> bool:
    return _disabled


_around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


def watch_kernels(around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Functions loaded from now on are what `around` makes of them, so that a profiler sees their calls."""
    global _around
    _around = around


class _Nothing:
    """Stands where a C function would."""

    def __init__(self, function: Function) -> None:
        self._result = None if function.returns == "void" else 0

    def __call__(self, *_: Any) -> int | None:
        return self._result


def bind(address: Any, function: Function, device: str = "cpu") -> Callable[..., Any]:
    """`address` (of a ctypes library) as a Python function that checks what it is given; tensors lie on `device`. A
    parameter of kind `stream` gets torch's current stream by itself."""
    address.argtypes = [_ctype(parameter) for parameter in function.parameters]
    address.restype = None if function.returns == "void" else _CTYPES[function.returns]
    if _disabled:
        address = _Nothing(function)
    careful = _Careful(address, function, device)
    taken = [p for p in function.parameters if p.kind != "stream"]
    names = [f"a{index}" for index in range(len(taken))]
    scope: dict[str, Any] = {"address": address, "careful": careful, "stream": current_stream}
    checks = [fast_check(name, p, scope, device) for name, p in zip(names, taken, strict=True)]
    given = iter(names)
    passed = [_passed(p, given) for p in function.parameters]
    listed, check = f"[{', '.join(names)}]", " and ".join(checks) or "True"
    call = defined(_SOURCE.format(names=listed, check=check, passed=", ".join(passed)), scope, function)
    return call if _around is None else _around(call)


def defined(source: str, scope: dict[str, Any], function: Function) -> Callable[..., Any]:
    """The `call` that `source` defines, under the function's name."""
    exec(source, scope)
    call: Callable[..., Any] = scope["call"]
    call.__name__ = call.__qualname__ = function.name
    call.__doc__ = str(function)
    return call


def _passed(parameter: Parameter, names: Iterator[str]) -> str:
    if parameter.kind == "stream":
        return "stream()"
    name = next(names)
    return f"{name}.data_ptr()" if parameter.kind == "pointer" else name


def current_stream() -> int:
    """The handle of torch's current stream on its current device."""
    handle: int = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())
    return handle


_SOURCE = """
def call(*args):
    try:
        {names} = args
        usual = {check}
    except Exception:
        usual = False
    if usual:
        return address({passed})
    return careful(args)
"""


def _ctype(parameter: Parameter) -> Any:
    return _CTYPES[parameter.dtype] if parameter.kind == "scalar" else ctypes.c_void_p


def fast_check(name: str, parameter: Parameter, scope: dict[str, Any], device: str = "cpu") -> str:
    """A cheap expression that is true only for an argument that may be passed on as it is."""
    if parameter.kind == "pointer":
        usual = f"{name}.is_{device} and {name}.is_contiguous()"
        if parameter.dtype == "any":
            return usual
        scope[parameter.dtype] = getattr(torch, parameter.dtype, None)
        return f"{name}.dtype is {parameter.dtype} and {usual}"
    if parameter.dtype in INTEGER_BITS:
        low, high = _range(parameter.dtype)
        return f"type({name}) is int and {low} <= {name} <= {high}"
    return f"type({name}) is {'bool' if parameter.dtype == 'bool' else 'float'}"


def _accepted(dtype: str) -> tuple[str, ...]:
    return _RAW_16_BITS if dtype == "uint16" else (dtype,)


def _range(dtype: str) -> tuple[int, int]:
    bits = INTEGER_BITS[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


class _Careful:
    """Calls with any arguments that have one meaning; else raises a TypeError, ValueError or OverflowError."""

    def __init__(self, address: Any, function: Function, device: str) -> None:
        self.address, self.function, self.device = address, function, device

    def __call__(self, args: tuple[Any, ...]) -> Any:
        values = iter(converted(self.function, args, self.device))
        return self.address(
            *[current_stream() if p.kind == "stream" else next(values) for p in self.function.parameters]
        )


def converted(function: Function, args: tuple[Any, ...], device: str) -> list[Any]:
    """The arguments as C takes them: addresses, None, numbers. What has no one meaning is an error that names it."""
    parameters = [p for p in function.parameters if p.kind != "stream"]
    if len(args) != len(parameters):
        raise TypeError(f"{function} takes {len(parameters)} arguments, {len(args)} given")
    return [_converted(function, i, p, a, device) for i, (p, a) in enumerate(zip(parameters, args, strict=True))]


def _converted(function: Function, index: int, parameter: Parameter, value: Any, device: str) -> Any:
    try:
        return _pointer(parameter, value, device) if parameter.kind == "pointer" else _scalar(parameter, value)
    except (TypeError, ValueError, OverflowError) as error:
        called = f"argument {index + 1} ({parameter.type} {parameter.name})".replace(" )", ")")
        raise type(error)(f"{function.name}(), {called}: {error}") from None


def _pointer(parameter: Parameter, value: Any, device: str) -> int | None:
    where = device.upper()
    wanted = "any dtype" if parameter.dtype == "any" else parameter.dtype
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"a contiguous {where} tensor of {wanted} is expected, given {_described(value)}")
    if value.device.type != device:
        raise ValueError(f"a {where} tensor is expected, given one on {value.device}")
    if value.layout is not torch.strided:
        raise ValueError(f"a dense tensor is expected, given one with layout {value.layout}")
    if parameter.dtype != "any" and str(value.dtype).removeprefix("torch.") not in _accepted(parameter.dtype):
        raise TypeError(f"a tensor of {wanted} is expected, given {_described(value)}")
    if not value.is_contiguous():
        strides = f"strides {tuple(value.stride())} for shape {tuple(value.shape)}"
        raise ValueError(f"a contiguous tensor is expected, given one with {strides}; pass x.contiguous()")
    return value.data_ptr()


def _scalar(parameter: Parameter, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        raise TypeError(f"a Python number is expected, given {_described(value)}; pass x.item()")
    if parameter.dtype in INTEGER_BITS:
        return _integer(parameter.dtype, value)
    if parameter.dtype == "bool":
        if not isinstance(value, bool) and value not in (0, 1):
            raise TypeError(f"True or False is expected, given {_described(value)}")
        return bool(value)
    if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"a number is expected, given {_described(value)}")
    return float(value)


def _integer(dtype: str, value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"an integer is expected, given {_described(value)}")
    number: int = value.__index__()
    low, high = _range(dtype)
    if not low <= number <= high:
        raise OverflowError(f"{number} is outside of {dtype} ({low} to {high})")
    return number


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')} with shape {tuple(value.shape)}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"
