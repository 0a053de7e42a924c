"""Pooling: a reduction over windows. Elements outside the input are left out by bounds on the loops."""

from __future__ import annotations

import math
from typing import Any

from cuda_agent.policies.template.graph import Operator
from cuda_agent.policies.template.ir import Node
from cuda_agent.policies.template.lower import Lowering, NoRule, rule
from cuda_agent.policies.template.rules.reductions import mean_of


def _per_dim(value: Any, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _rank(op: Operator) -> int:
    return int(next(ch for ch in op.op if ch.isdigit()))


def windows_of(x: Node, op: Operator, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[Any, ...]:
    n = _rank(op)
    sizes = _per_dim(kernel, n)
    steps = _per_dim(stride, n) if stride not in (None, []) else sizes
    first = len(x.shape) - n
    return tuple(zip(range(first, first + n), sizes, steps, _per_dim(padding, n), _per_dim(dilation, n), strict=True))


def pooled(c: Lowering, op: Operator, x: Node, windows: tuple[Any, ...], shape: tuple[int, ...], how: str) -> Node:
    view = c.b.window(x, windows, tuple(shape[w[0]] for w in windows))
    dims = tuple(range(len(x.shape), len(view.shape)))
    return c.b.reduce(how, view, dims, keep=False)


@rule("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    c: Lowering,
    op: Operator,
    x: Node,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil: bool = False,
) -> Node:
    windows = windows_of(x, op, kernel, stride, padding, dilation)
    return pooled(c, op, x, windows, tuple(op.shape or ()), "max")


@rule("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_values(c: Lowering, op: Operator, x: Node, *args: Any) -> tuple[Node, None]:
    if c.uses.get(op.name, 0) > 1:
        raise NoRule("indices of a pooling")
    assert op.items and op.items[0] is not None
    inner = op.model_copy(update={"shape": op.items[0].shape})
    return max_pool(c, inner, x, *args), None


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    c: Lowering,
    op: Operator,
    x: Node,
    kernel: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Node:
    windows = windows_of(x, op, kernel, stride, padding, 1)
    shape = tuple(op.shape or ())
    overhang = any((shape[d] - 1) * s - p + k > x.shape[d] + p for d, k, s, p, _ in windows)
    if overhang:
        raise NoRule("average pooling whose last window hangs over")
    summed = pooled(c, op, x, windows, shape, "sum")
    if divisor is None and not count_include_pad and any(w[3] for w in windows):
        ones = c.b.window(c.b.const(1.0, x.dtype, x.shape), windows, tuple(shape[w[0]] for w in windows))
        count = c.b.reduce("sum", ones, tuple(range(len(x.shape), len(ones.shape))), keep=False)
        return c.b.point("div", summed, count)
    return c.b.point("mul", summed, c.scalar(1 / (divisor or math.prod(w[1] for w in windows)), x.dtype))


@rule(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
)
def adaptive(c: Lowering, op: Operator, x: Node, size: Any) -> Any:
    is_max = "max" in op.op
    described = op.items[0] if is_max and op.items else op
    if is_max and c.uses.get(op.name, 0) > 1:
        raise NoRule("indices of a pooling")
    assert described is not None and described.shape is not None
    shape, n = tuple(described.shape), _rank(op)
    first = len(x.shape) - n
    dims = tuple(range(first, len(x.shape)))
    if any(x.shape[d] % shape[d] for d in dims):
        raise NoRule("adaptive pooling into windows of different sizes")
    # every window is a block: split each pooled dim into (result, block)
    split = (*x.shape[:first], *(v for d in dims for v in (shape[d], x.shape[d] // shape[d])))
    blocks = c.b.reshape(x, split)
    inner = tuple(first + 2 * i + 1 for i in range(n))
    y = c.b.reduce("max", blocks, inner, keep=False) if is_max else mean_of(c, blocks, inner, keep=False)
    y = c.b.reshape(y, shape)
    return (y, None) if is_max else y
