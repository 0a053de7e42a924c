"""Data movement: other coordinates into the same elements, positions, constants, gathers and concatenations."""

from __future__ import annotations

import math
from typing import Any

from cuda_agent.policies.template.graph import Operator
from cuda_agent.policies.template.ir import Node
from cuda_agent.policies.template.lower import Lowering, NoRule, rule


@rule("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten")
def reshape(c: Lowering, op: Operator, x: Node, *_: Any) -> Node:
    return c.b.reshape(x, tuple(op.shape or ()))


@rule("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "positive", "dropout")
def same(c: Lowering, op: Operator, x: Node, *_: Any, **__: Any) -> Node:
    return x


@rule("expand", "broadcast_to")
def expand(c: Lowering, op: Operator, x: Node, *_: Any, **__: Any) -> Node:
    return c.b.expand(x, tuple(op.shape or ()))


@rule("permute")
def permute(c: Lowering, op: Operator, x: Node, dims: list[int]) -> Node:
    return c.b.permute(x, tuple(d % len(x.shape) for d in dims))


@rule("transpose", "t", "numpy_T")
def transpose(c: Lowering, op: Operator, x: Node, first: int = 0, second: int = 1) -> Node:
    if len(x.shape) < 2:
        return x
    dims = list(range(len(x.shape)))
    a, b = first % len(dims), second % len(dims)
    dims[a], dims[b] = dims[b], dims[a]
    return c.b.permute(x, tuple(dims))


def cut(c: Lowering, x: Node, dim: int, start: int, length: int, step: int = 1) -> Node:
    starts, steps, shape = [0] * len(x.shape), [1] * len(x.shape), list(x.shape)
    starts[dim], steps[dim], shape[dim] = start, step, length
    return c.b.slice(x, tuple(starts), tuple(steps), tuple(shape))


@rule("slice")
def slice_(
    c: Lowering, op: Operator, x: Node, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Node:
    dim %= len(x.shape)
    begin, stop, _ = slice(start, end).indices(x.shape[dim])
    return cut(c, x, dim, begin, max(0, math.ceil((stop - begin) / step)), step)


@rule("select")
def select(c: Lowering, op: Operator, x: Node, dim: int, index: int) -> Node:
    dim %= len(x.shape)
    return c.b.reshape(cut(c, x, dim, index % x.shape[dim], 1), tuple(op.shape or ()))


@rule("split_with_sizes", "split", "unbind", "chunk")
def split(c: Lowering, op: Operator, x: Node, sizes: Any = 0, dim: int = 0) -> tuple[Node, ...]:
    name = op.op.split(".")[1]
    if name == "unbind":
        dim, sizes = int(sizes or 0), 1
    dim %= len(x.shape)
    parts, start = [], 0
    for item in op.items or []:
        assert item is not None and item.shape is not None
        length = 1 if name == "unbind" else item.shape[dim]
        parts.append(c.b.reshape(cut(c, x, dim, start, length), tuple(item.shape)))
        start += length
    return tuple(parts)


@rule("flip")
def flip(c: Lowering, op: Operator, x: Node, dims: list[int]) -> Node:
    return c.b.flip(x, tuple(d % len(x.shape) for d in dims))


@rule("cat")
def cat(c: Lowering, op: Operator, parts: list[Node], dim: int = 0) -> Node:
    parts = [c.b.cast(p, str(op.dtype)) for p in parts if p.shape != (0,)]
    return c.b.concat(tuple(parts), dim % len(parts[0].shape))


@rule("stack")
def stack(c: Lowering, op: Operator, parts: list[Node], dim: int = 0) -> Node:
    shape = list(op.shape or ())
    dim %= len(shape)
    shape[dim] = 1
    return c.b.concat(tuple(c.b.reshape(c.b.cast(p, str(op.dtype)), tuple(shape)) for p in parts), dim)


@rule("roll")
def roll(c: Lowering, op: Operator, x: Node, shifts: list[int], dims: list[int] | None = None) -> Node:
    if not dims:
        raise NoRule("roll without dimensions")
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim % len(x.shape)]
        place = (-shift) % size
        if place:
            d = dim % len(x.shape)
            x = c.b.concat((cut(c, x, d, place, size - place), cut(c, x, d, 0, place)), d)
    return x


@rule("constant_pad_nd")
def pad(c: Lowering, op: Operator, x: Node, pads: list[int], value: float = 0) -> Node:
    for i in range(0, len(pads), 2):
        dim = len(x.shape) - 1 - i // 2
        before, after = pads[i], pads[i + 1]
        if before < 0 or after < 0:
            x = cut(c, x, dim, max(0, -before), x.shape[dim] + min(0, before) + min(0, after))
        sides = []
        for amount in (before, after):
            shape = list(x.shape)
            shape[dim] = max(0, amount)
            sides.append(c.b.const(value, x.dtype, tuple(shape)))
        x = c.b.concat((sides[0], x, sides[1]), dim)
    return x


@rule("repeat")
def repeat(c: Lowering, op: Operator, x: Node, repeats: list[int]) -> Node:
    shape = (1,) * (len(repeats) - len(x.shape)) + x.shape
    paired = tuple(s for pair in zip((1,) * len(shape), shape, strict=True) for s in pair)
    full = tuple(s for pair in zip(repeats, shape, strict=True) for s in pair)
    return c.b.reshape(c.b.expand(c.b.reshape(x, paired), full), tuple(op.shape or ()))


@rule("tril", "triu")
def triangle(c: Lowering, op: Operator, x: Node, diagonal: int = 0) -> Node:
    rank = len(x.shape)
    row, column = c.b.position(x.shape, rank - 2), c.b.position(x.shape, rank - 1)
    edge = c.b.point("add", row, c.b.const(diagonal, "int64"))
    kept = c.b.point("le" if "tril" in op.op else "ge", column, edge, dtype="bool")
    return c.b.point("where", kept, x, c.scalar(0, x.dtype), dtype=x.dtype)


@rule(
    "full",
    "zeros",
    "ones",
    "scalar_tensor",
    "full_like",
    "zeros_like",
    "ones_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "empty_like",
    "fill",
)
def full(c: Lowering, op: Operator, *args: Any, **kwargs: Any) -> Node:
    name = op.op.split(".")[1]
    value: Any = 0 if "zeros" in name or "empty" in name else 1
    if name in ("full", "full_like", "fill"):
        value = args[1] if len(args) > 1 else kwargs["fill_value"]
    if name == "new_full":
        value = args[2]
    if name == "scalar_tensor":
        value = args[0]
    if isinstance(value, Node):
        return c.b.expand(c.b.cast(value, str(op.dtype)), tuple(op.shape or ()))
    return c.b.const(value, str(op.dtype), tuple(op.shape or ()))


@rule("arange", "iota")
def arange(c: Lowering, op: Operator, *args: Any, **kwargs: Any) -> Node:
    numbers = [a for a in args if isinstance(a, int | float)]
    if "iota" in op.op:
        start, step = kwargs.get("start", 0), kwargs.get("step", 1)
    else:
        start = numbers[0] if len(numbers) > 1 else 0
        step = numbers[2] if len(numbers) > 2 else 1
    place = c.b.cast(c.b.position(tuple(op.shape or ()), 0), str(op.dtype))
    if step != 1:
        place = c.b.point("mul", place, c.scalar(step, place.dtype))
    return place if not start else c.b.point("add", place, c.scalar(start, place.dtype))


@rule("gather")
def gather(c: Lowering, op: Operator, x: Node, dim: int, index: Node, sparse_grad: bool = False) -> Node:
    return c.b.gather(x, index, dim % len(x.shape))


@rule("index_select")
def index_select(c: Lowering, op: Operator, x: Node, dim: int, index: Node) -> Node:
    return c.b.select(x, c.b.reshape(index, (index.numel,)), dim % len(x.shape))


@rule("embedding")
def embedding(c: Lowering, op: Operator, weight: Node, index: Node, *_: Any) -> Node:
    return c.b.select(weight, index, 0)


@rule("index")
def index(c: Lowering, op: Operator, x: Node, indices: list[Node | None]) -> Node:
    used = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(used) != 1 or used[0][1].dtype == "bool":
        raise NoRule("indexing with several tensors or a mask")
    dim, place = used[0]
    negative = c.b.point("lt", place, c.scalar(0, place.dtype), dtype="bool")
    wrapped = c.b.point("add", place, c.scalar(x.shape[dim], place.dtype))
    return c.b.select(x, c.b.point("where", negative, wrapped, place, dtype=place.dtype), dim)


@rule("diagonal")
def diagonal(c: Lowering, op: Operator, x: Node, offset: int = 0, first: int = 0, second: int = 1) -> Node:
    if len(x.shape) != 2 or offset or (first, second) != (0, 1):
        raise NoRule("a diagonal of more than a matrix")
    size = min(x.shape)
    flat = c.b.reshape(x, (x.numel,))
    return cut(c, flat, 0, 0, size, x.shape[1] + 1)
