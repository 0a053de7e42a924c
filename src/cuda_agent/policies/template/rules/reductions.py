"""Reductions over any dimensions, and scans."""

from __future__ import annotations

import math
from typing import Any

from cuda_agent.policies.template.graph import Operator
from cuda_agent.policies.template.ir import Node
from cuda_agent.policies.template.lower import Lowering, NoRule, rule
from cuda_agent.policies.template.rules.pointwise import is_float


def dims_of(x: Node, dim: Any) -> tuple[int, ...]:
    """Dimensions as sorted non-negative numbers; all of them where none is named."""
    rank = len(x.shape)
    if dim is None or dim == []:
        return tuple(range(rank))
    return tuple(sorted(d % rank if rank else 0 for d in ([dim] if isinstance(dim, int) else dim)))


@rule("sum")
def total(c: Lowering, op: Operator, x: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Node:
    return c.b.reduce("sum", c.b.cast(x, str(op.dtype)), dims_of(x, dim), keepdim)


def mean_of(c: Lowering, x: Node, dims: tuple[int, ...], keep: bool = True) -> Node:
    count = math.prod(x.shape[d] for d in dims)
    return c.b.point("div", c.b.reduce("sum", x, dims, keep), c.scalar(count, x.dtype))


@rule("mean")
def mean(c: Lowering, op: Operator, x: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Node:
    return mean_of(c, c.b.cast(x, str(op.dtype)), dims_of(x, dim), keepdim)


def moments(c: Lowering, x: Node, dims: tuple[int, ...]) -> tuple[Node, Node]:
    """Mean and mean squared deviation, both with `dims` kept at size 1."""
    mean = mean_of(c, x, dims)
    deviation = c.b.point("sub", x, mean)
    return mean, mean_of(c, c.b.point("mul", deviation, deviation), dims)


@rule("var", "std", "var_mean", "std_mean")
def var(
    c: Lowering,
    op: Operator,
    x: Node,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Any:
    name, overload = op.op.split(".")[1:3]
    if overload == "correction":
        keepdim = keepdim or unbiased is True
        correction = 1 if correction is None else correction
    elif isinstance(dim, bool):  # var(x, unbiased)
        dim, correction = None, float(dim)
    else:
        correction = 1 if unbiased is None or unbiased else 0
    dims = dims_of(x, dim)
    count = math.prod(x.shape[d] for d in dims)
    center, square = moments(c, x, dims)
    if correction:
        left = count - correction
        factor = count / left if left > 0 else float("nan") if count == 1 else float("inf")
        square = c.b.point("mul", square, c.scalar(factor, x.dtype))
    if name.startswith("std"):
        square = c.b.point("sqrt", square)
    if not keepdim:
        shape = tuple(s for d, s in enumerate(x.shape) if d not in dims)
        square, center = c.b.reshape(square, shape), c.b.reshape(center, shape)
    return (square, center) if name.endswith("_mean") else square


@rule("amax", "amin", "prod", "any", "all", "max.default", "min.default")
def simple(c: Lowering, op: Operator, x: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Node:
    name = op.op.split(".")[1].removeprefix("a") if "am" in op.op else op.op.split(".")[1]
    return c.b.reduce(name, c.b.cast(x, str(op.dtype)), dims_of(x, dim), keepdim)


def arg_extreme(c: Lowering, x: Node, dim: int, which: str) -> tuple[Node, Node]:
    """Extreme values and the first index at which they stand (int32), both with `dim` kept; a NaN is extreme."""
    if x.shape[dim] >= 1 << 31:
        raise NoRule("more than 2^31 elements in a row")
    best = c.b.reduce(which, x, (dim,))
    hit = c.b.point("eq", x, best, dtype="bool")
    if is_float(x.dtype):
        hit = c.b.point("bit_or", hit, c.b.point("isnan", x, dtype="bool"))
    place = c.b.position(x.shape, dim, "int32")
    index = c.b.point("where", hit, place, c.b.const(2**31 - 1, "int32"), dtype="int32")
    return best, c.b.reduce("min", index, (dim,))


@rule("argmax", "argmin")
def argmax(c: Lowering, op: Operator, x: Node, dim: int | None = None, keepdim: bool = False) -> Node:
    if dim is None:
        if keepdim:
            raise NoRule("keepdim without dim")
        x, dim = c.b.reshape(x, (x.numel,)), 0
    dim = dims_of(x, dim)[0]
    index = c.b.cast(arg_extreme(c, x, dim, op.op.split(".")[1][3:])[1], "int64")
    return index if keepdim else c.b.reshape(index, x.shape[:dim] + x.shape[dim + 1 :])


@rule("max.dim", "min.dim")
def max_dim(c: Lowering, op: Operator, x: Node, dim: int, keepdim: bool = False) -> tuple[Node, Node]:
    dim = dims_of(x, dim)[0]
    value, index = arg_extreme(c, x, dim, op.op.split(".")[1])
    index = c.b.cast(index, "int64")
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return (value, index) if keepdim else (c.b.reshape(value, shape), c.b.reshape(index, shape))


@rule("aminmax")
def aminmax(c: Lowering, op: Operator, x: Node, dim: Any = None, keepdim: bool = False) -> tuple[Node, Node]:
    dims = dims_of(x, dim)
    return c.b.reduce("min", x, dims, keepdim), c.b.reduce("max", x, dims, keepdim)


@rule("linalg_vector_norm", "norm")
def vector_norm(
    c: Lowering, op: Operator, x: Node, order: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any
) -> Node:
    x = c.b.cast(x, str(op.dtype))
    dims = dims_of(x, dim)
    size = c.b.point("abs", x)
    order = 2 if order is None else order
    if order == 2:
        return c.b.point("sqrt", c.b.reduce("sum", c.b.point("mul", x, x), dims, keepdim))
    if order == 1:
        return c.b.reduce("sum", size, dims, keepdim)
    if order in (float("inf"), float("-inf")):
        return c.b.reduce("max" if order > 0 else "min", size, dims, keepdim)
    if order == 0:
        nonzero = c.b.cast(c.b.point("ne", x, c.scalar(0, x.dtype), dtype="bool"), x.dtype)
        return c.b.reduce("sum", nonzero, dims, keepdim)
    powers = c.b.reduce("sum", c.b.point("pow", size, c.scalar(order, x.dtype)), dims, keepdim)
    return c.b.point("pow", powers, c.scalar(1 / order, x.dtype))


@rule("softmax", "_softmax", "_safe_softmax")
def softmax(c: Lowering, op: Operator, x: Node, dim: int, *_: Any, **__: Any) -> Node:
    x = c.b.cast(x, str(op.dtype))
    dims = dims_of(x, dim)
    grown = c.b.point("exp", c.b.point("sub", x, c.b.reduce("max", x, dims)))
    result = c.b.point("mul", grown, c.b.point("reciprocal", c.b.reduce("sum", grown, dims)))
    if "_safe" not in op.op:
        return result
    empty = c.b.point("eq", c.b.reduce("max", x, dims), c.scalar(float("-inf"), x.dtype), dtype="bool")
    return c.b.point("where", empty, c.scalar(0.0, x.dtype), result, dtype=x.dtype)


@rule("log_softmax", "_log_softmax")
def log_softmax(c: Lowering, op: Operator, x: Node, dim: int, *_: Any, **__: Any) -> Node:
    x = c.b.cast(x, str(op.dtype))
    dims = dims_of(x, dim)
    shifted = c.b.point("sub", x, c.b.reduce("max", x, dims))
    return c.b.point("sub", shifted, c.b.point("log", c.b.reduce("sum", c.b.point("exp", shifted), dims)))


@rule("logsumexp")
def logsumexp(c: Lowering, op: Operator, x: Node, dim: Any, keepdim: bool = False) -> Node:
    dims = dims_of(x, dim)
    top = c.b.reduce("max", x, dims)
    infinite = c.b.point("eq", c.b.point("abs", top), c.scalar(float("inf"), x.dtype), dtype="bool")
    shift = c.b.point("where", infinite, c.scalar(0.0, x.dtype), top, dtype=x.dtype)
    result = c.b.point(
        "add", c.b.point("log", c.b.reduce("sum", c.b.point("exp", c.b.point("sub", x, shift)), dims)), shift
    )
    return result if keepdim else c.b.reshape(result, tuple(s for d, s in enumerate(x.shape) if d not in dims))


@rule("cumsum", "cumprod")
def cumulative(c: Lowering, op: Operator, x: Node, dim: int, **_: Any) -> Node:
    x = c.b.cast(x, str(op.dtype))
    if not x.shape:
        return x
    return c.b.scan({"cumsum": "sum", "cumprod": "prod"}[op.op.split(".")[1]], x, dims_of(x, dim)[0])
