"""One ATen call as source: an operator, a function of torch or of torch.nn.functional, a method; else the call itself.

The readable form is chosen by name. Whether torch then runs the same operators is not proven here: whoever generates
a task compares it with the live module and falls back to the plain form.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from cuda_agent.errors import TaskError

_BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
_BINARY |= {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "bitwise_and": "&", "bitwise_or": "|"}
_PYTHON = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//"}
_PYTHON |= {operator.pow: "**", operator.mod: "%"}
_FUNCTIONAL = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"), 9),
    **dict.fromkeys(("conv_transpose3d", "relu", "gelu", "silu", "mish", "elu", "leaky_relu", "hardtanh"), 9),
    **dict.fromkeys(("hardswish", "hardsigmoid", "softplus", "relu6", "glu", "scaled_dot_product_attention"), 9),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"), 9),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "pad", "one_hot"), 9),
    **dict.fromkeys(("layer_norm", "group_norm"), 5),
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "pixel_shuffle", "cosine_similarity"), 2),
    "rms_norm": 4,
}
"""Functions whose arguments come in the same order as those of the operator, up to so many of them."""
_RENAMED = {"cross_entropy_loss": ("cross_entropy", 2), "log_sigmoid": ("logsigmoid", 1)}
_METHODS = (
    *("view", "reshape", "permute", "transpose", "expand", "contiguous", "to", "unsqueeze", "squeeze", "repeat"),
    *("clone", "t", "flatten", "split", "chunk", "unbind", "size", "item", "masked_fill", "expand_as", "view_as"),
    *("type_as", "new_zeros", "new_ones", "new_full"),
)
_END = 2**63 - 1


def call(target: Any, args: Sequence[Any], kwargs: dict[str, Any], write: Callable[[Any], str], plain: bool) -> str:
    """The source of `target(*args, **kwargs)`, each argument put down by `write`. Raises TaskError."""
    if not isinstance(target, torch._ops.OpOverload):
        return _python(target, args, write)
    if target.namespace not in ("aten", "prims"):
        raise TaskError(f"it uses the operator {target}, which torch alone does not have")
    kwargs = {name: value for name, value in kwargs.items() if not _is_default(name, value)}
    if not plain:
        for form in (_special, _operator, _functional, _named):
            if (text := form(target, list(args), kwargs, write)) is not None:
                return text
    return f"torch.ops.{target}({_joined(args, kwargs, write)})"


def _is_default(name: str, value: Any) -> bool:
    return (name, value) in (("pin_memory", False), ("layout", torch.strided), ("non_blocking", False))


def _joined(args: Sequence[Any], kwargs: dict[str, Any], write: Callable[[Any], str]) -> str:
    return ", ".join([*(write(arg) for arg in args), *(f"{name}={write(value)}" for name, value in kwargs.items())])


def _python(target: Any, args: Sequence[Any], write: Callable[[Any], str]) -> str:
    if target is operator.getitem:
        return f"{write(args[0])}[{write(args[1])}]"
    if target in _PYTHON and len(args) == 2:
        return f"({write(args[0])} {_PYTHON[target]} {write(args[1])})"
    name = str(getattr(target, "__name__", target))
    if "autocast" in name:
        raise TaskError("it uses torch.autocast inside forward; choose a precision for the task instead")
    raise TaskError(f"it uses {name}, for which there is no line of plain torch")


def _special(target: Any, args: list[Any], kwargs: dict[str, Any], write: Callable[[Any], str]) -> str | None:
    """Calls whose readable form has its arguments in another order."""
    texts = [write(arg) for arg in args]
    match str(target).removeprefix("aten."):
        case "batch_norm.default":
            x, weight, bias, mean, variance, training, momentum, eps, _ = texts
            return f"F.batch_norm({x}, {mean}, {variance}, {weight}, {bias}, {training}, {momentum}, {eps})"
        case "instance_norm.default":
            x, weight, bias, mean, variance, use_input, momentum, eps, _ = texts
            return f"F.instance_norm({x}, {mean}, {variance}, {weight}, {bias}, {use_input}, {momentum}, {eps})"
        case "embedding.default":
            return f"F.embedding({texts[1]}, {texts[0]})"
        case "broadcast_tensors.default":
            return f"torch.broadcast_tensors({', '.join(write(arg) for arg in args[0])})"
        case "lift_fresh_copy.default":
            return f"{texts[0]}.clone()"
        case "neg.default":
            return f"-{texts[0]}"
        case "numpy_T.default" | "mT.default":
            return f"{texts[0]}.{'T' if 'numpy' in str(target) else 'mT'}"
        case "sym_size.int":
            return f"{texts[0]}.size({texts[1]})"
        case "rsub.Scalar" | "rsub.Tensor" if len(texts) == 2 and not kwargs:
            return f"{texts[1]} - {texts[0]}"
        case "select.int" if args[1] >= 0:
            return f"{texts[0]}[{':, ' * args[1]}{texts[2]}]"
        case "slice.Tensor" if len(args) > 1 and args[1] >= 0:
            return f"{texts[0]}[{':, ' * args[1]}{_slice(args[2:], texts[2:])}]"
        case "index.Tensor":
            return f"{texts[0]}[{', '.join(':' if index is None else write(index) for index in args[1])}]"
    return None


def _slice(args: list[Any], texts: list[str]) -> str:
    start = "" if not args or args[0] in (None, 0) else texts[0]
    stop = "" if len(args) < 2 or args[1] in (None, _END) else texts[1]
    step = "" if len(args) < 3 or args[2] == 1 else f":{texts[2]}"
    return f"{start}:{stop}{step}"


def _operator(target: Any, args: list[Any], kwargs: dict[str, Any], write: Callable[[Any], str]) -> str | None:
    sign = _BINARY.get(_base(target))
    if sign is None or len(args) != 2 or kwargs:
        return None
    left, right = (write(arg) for arg in args)
    return f"{f'({left})' if left.startswith('-') else left} {sign} {right}"


def _functional(target: Any, args: list[Any], kwargs: dict[str, Any], write: Callable[[Any], str]) -> str | None:
    base = _base(target)
    name, most = _RENAMED.get(base, (base, _FUNCTIONAL.get(base, 0)))
    if not most or not hasattr(functional, name):
        return None
    if len(args) > most:
        if base not in ("layer_norm", "group_norm"):
            return None
        args = args[:most]  # what follows chooses between implementations on a GPU
    return f"F.{name}({_joined(args, kwargs, write)})"


def _named(target: Any, args: list[Any], kwargs: dict[str, Any], write: Callable[[Any], str]) -> str | None:
    base = _base(target)
    if base.startswith("_"):
        return None
    family, _, rest = base.partition("_")
    if family in ("linalg", "special", "fft") and hasattr(getattr(torch, family), rest):
        return f"torch.{family}.{rest}({_joined(args, kwargs, write)})"
    in_place = base.endswith("_")
    if in_place and not hasattr(torch.Tensor, base) and hasattr(functional, base):
        return f"F.{base}({_joined(args, kwargs, write)})"
    if (in_place or base in _METHODS or not hasattr(torch, base)) and hasattr(torch.Tensor, base) and args:
        return f"{write(args[0])}.{base}({_joined(args[1:], kwargs, write)})"
    return f"torch.{base}({_joined(args, kwargs, write)})" if callable(getattr(torch, base, None)) else None


def _base(target: Any) -> str:
    """`add` for `aten.add.Tensor`."""
    return str(target).split(".")[1]
