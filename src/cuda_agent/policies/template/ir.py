"""The intermediate form: what is computed, element by element, without saying in which loop.

Nodes are interned, so that equal computations are one object; they compare by identity. A `Reduce` keeps its reduced
dimensions with size 1. Only `Input`, `Call` and what the schedule realises have memory of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Node:
    shape: Shape
    dtype: str

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def sources(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class Input(Node):
    """A contiguous tensor that exists: an argument, a parameter, a constant or something that `prepare` makes."""

    name: str
    kind: str
    """argument, state, constant or derived"""


@dataclass(frozen=True, eq=False)
class Const(Node):
    """One value everywhere."""

    value: float | int | bool


@dataclass(frozen=True, eq=False)
class Position(Node):
    """At each element, its coordinate along `dim`."""

    dim: int


@dataclass(frozen=True, eq=False)
class Point(Node):
    """One operation on elements with the same coordinates; all `args` have this node's shape."""

    op: str
    args: tuple[Node, ...]
    attrs: tuple[float | int | str, ...] = ()

    @property
    def sources(self) -> tuple[Node, ...]:
        return self.args


@dataclass(frozen=True, eq=False)
class View(Node):
    """Other coordinates into `src`. `kind` and `data`:
    reshape; expand; permute (dims); slice (start and step of each dim); flip (dims);
    window (((dim, kernel, stride, padding, dilation), ...): one trailing dim of size `kernel` for each)."""

    kind: str
    src: Node
    data: tuple[Any, ...] = ()

    @property
    def sources(self) -> tuple[Node, ...]:
        return (self.src,)


@dataclass(frozen=True, eq=False)
class Gather(Node):
    """`src` with its coordinate `dim` taken from `index`. aligned: torch.gather (index has the result's shape); else
    index_select (the index's dims stand where `dim` was)."""

    src: Node
    index: Node
    dim: int
    aligned: bool

    @property
    def sources(self) -> tuple[Node, ...]:
        return (self.src, self.index)


@dataclass(frozen=True, eq=False)
class Reduce(Node):
    """`op` is sum, prod, max, min, any or all."""

    op: str
    src: Node
    dims: tuple[int, ...]

    @property
    def sources(self) -> tuple[Node, ...]:
        return (self.src,)


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """Running `op` (sum, prod, max or min) along `dim`; `exclusive` leaves out the element itself."""

    op: str
    src: Node
    dim: int
    reverse: bool = False
    exclusive: bool = False

    @property
    def sources(self) -> tuple[Node, ...]:
        return (self.src,)


@dataclass(frozen=True, eq=False)
class Concat(Node):
    parts: tuple[Node, ...]
    dim: int

    @property
    def sources(self) -> tuple[Node, ...]:
        return self.parts


@dataclass(frozen=True, eq=False)
class Call(Node):
    """A call of torch: `template` is Python with `{0}`, `{1}`, … for `args`. `item` picks one of several results."""

    target: str
    """Name of the operator, for the rules and for people."""
    template: str
    args: tuple[Node, ...]
    fallback: bool = False
    """True where there was no rule."""
    item: int | None = None

    @property
    def sources(self) -> tuple[Node, ...]:
        return self.args


N = TypeVar("N", bound=Node)


class Builder:
    """Makes nodes, each only once, and leaves out the ones that do nothing."""

    def __init__(self) -> None:
        self._known: dict[Any, Node] = {}

    def _intern(self, node: N) -> Node:
        # the type of a constant counts: 1 == 1.0 == True, and 0.0 == -0.0
        values = (repr(v) if k in ("value", "attrs") else v for k, v in vars(node).items())
        key = (type(node), *values)
        return self._known.setdefault(key, node)  # type: ignore[return-value]

    def input(self, shape: Shape, dtype: str, name: str, kind: str) -> Node:
        return self._intern(Input(shape, dtype, name, kind))

    def const(self, value: float | int | bool, dtype: str, shape: Shape = ()) -> Node:
        value = (
            float(value) if dtype.startswith(("float", "bfloat")) else bool(value) if dtype == "bool" else int(value)
        )
        return self._intern(Const(shape, dtype, value))

    def position(self, shape: Shape, dim: int, dtype: str = "int64") -> Node:
        return self._intern(Position(shape, dtype, dim))

    def point(self, op: str, *args: Node, dtype: str | None = None, attrs: tuple[Any, ...] = ()) -> Node:
        """Broadcasts the arguments; the dtype is the first argument's unless given."""
        shape = broadcast(*(a.shape for a in args))
        return self._intern(Point(shape, dtype or args[0].dtype, op, tuple(self.expand(a, shape) for a in args), attrs))

    def cast(self, node: Node, dtype: str) -> Node:
        if node.dtype == dtype:
            return node
        if isinstance(node, Const):
            return self.const(node.value, dtype, node.shape)
        return self.point("cast", node, dtype=dtype)

    def expand(self, node: Node, shape: Shape) -> Node:
        if node.shape == shape:
            return node
        if isinstance(node, Const):
            return self._intern(Const(shape, node.dtype, node.value))
        if len(node.shape) < len(shape):
            node = self.reshape(node, (1,) * (len(shape) - len(node.shape)) + node.shape)
        return node if node.shape == shape else self._intern(View(shape, node.dtype, "expand", node))

    def reshape(self, node: Node, shape: Shape) -> Node:
        while isinstance(node, View) and node.kind == "reshape":
            node = node.src
        if node.shape == shape:
            return node
        if isinstance(node, Const):
            return self._intern(Const(shape, node.dtype, node.value))
        return self._intern(View(shape, node.dtype, "reshape", node))

    def permute(self, node: Node, dims: tuple[int, ...]) -> Node:
        shape = tuple(node.shape[d] for d in dims)
        if isinstance(node, Const):
            return self._intern(Const(shape, node.dtype, node.value))
        if isinstance(node, View) and node.kind == "permute":
            return self.permute(node.src, tuple(node.data[d] for d in dims))
        if dims == tuple(range(len(dims))):
            return node
        return self._intern(View(shape, node.dtype, "permute", node, dims))

    def slice(self, node: Node, starts: Shape, steps: Shape, shape: Shape) -> Node:
        if shape == node.shape:
            return node
        if isinstance(node, Const):
            return self._intern(Const(shape, node.dtype, node.value))
        return self._intern(View(shape, node.dtype, "slice", node, (*zip(starts, steps, strict=True),)))

    def flip(self, node: Node, dims: tuple[int, ...]) -> Node:
        dims = tuple(d for d in dims if node.shape[d] > 1)
        if not dims or isinstance(node, Const):
            return node
        if isinstance(node, View) and node.kind == "flip" and set(node.data) == set(dims):
            return node.src
        if isinstance(node, Scan) and self._scans_flipped(node, dims):
            return self.scan(node.op, node.src.sources[0], node.dim, reverse=True, exclusive=node.exclusive)
        return self._intern(View(node.shape, node.dtype, "flip", node, dims))

    def _scans_flipped(self, node: Scan, dims: tuple[int, ...]) -> bool:
        src = node.src
        flipped = isinstance(src, View) and src.kind == "flip" and src.data == dims
        return flipped and dims == (node.dim,) and not node.reverse

    def window(self, node: Node, windows: tuple[tuple[int, int, int, int, int], ...], sizes: Shape) -> Node:
        """`sizes` are the numbers of windows along each windowed dim."""
        shape = list(node.shape)
        for (dim, *_), size in zip(windows, sizes, strict=True):
            shape[dim] = size
        return self._intern(View((*shape, *(w[1] for w in windows)), node.dtype, "window", node, windows))

    def gather(self, src: Node, index: Node, dim: int) -> Node:
        return self._intern(Gather(index.shape, src.dtype, src, index, dim, True))

    def select(self, src: Node, index: Node, dim: int) -> Node:
        shape = (*src.shape[:dim], *index.shape, *src.shape[dim + 1 :])
        return self._intern(Gather(shape, src.dtype, src, index, dim, False))

    def reduce(self, op: str, node: Node, dims: tuple[int, ...], keep: bool = True) -> Node:
        shape = tuple(1 if d in dims else size for d, size in enumerate(node.shape))
        real = tuple(d for d in sorted(dims) if node.shape[d] != 1)
        reduced = self._intern(Reduce(shape, node.dtype, op, node, real)) if real else node
        return reduced if keep else self.reshape(reduced, tuple(s for d, s in enumerate(node.shape) if d not in dims))

    def scan(self, op: str, node: Node, dim: int, *, reverse: bool = False, exclusive: bool = False) -> Node:
        if node.shape[dim] == 1 and not exclusive:
            return node
        return self._intern(Scan(node.shape, node.dtype, op, node, dim, reverse, exclusive))

    def concat(self, parts: tuple[Node, ...], dim: int) -> Node:
        parts = tuple(p for p in parts if p.shape[dim])
        if len(parts) == 1:
            return parts[0]
        shape = list(parts[0].shape)
        shape[dim] = sum(p.shape[dim] for p in parts)
        exclusive = self._exclusive_scan(parts, dim)
        return exclusive or self._intern(Concat(tuple(shape), parts[0].dtype, parts, dim))

    def _exclusive_scan(self, parts: tuple[Node, ...], dim: int) -> Node | None:
        """cat(0, cumsum(x without its last element)) is an exclusive sum of x."""
        if len(parts) != 2 or not isinstance(parts[0], Const) or not isinstance(parts[1], Scan):
            return None
        first, scan, cut = parts[0], parts[1], parts[1].src
        plain = scan.dim == dim and scan.op in ("sum", "prod") and not scan.reverse and not scan.exclusive
        if not plain or first.shape[dim] != 1 or first.value != (scan.op == "prod"):
            return None
        if not isinstance(cut, View) or cut.kind != "slice" or any(part != (0, 1) for part in cut.data):
            return None
        shorter = cut.src.shape[dim] == cut.shape[dim] + 1 and cut.src.dtype == scan.dtype
        return self.scan(scan.op, cut.src, dim, exclusive=True) if shorter else None

    def call(
        self,
        target: str,
        template: str,
        *args: Node,
        shape: Shape,
        dtype: str,
        fallback: bool = False,
        item: int | None = None,
    ) -> Node:
        return self._intern(Call(shape, dtype, target, template, args, fallback, item))


def broadcast(*shapes: Shape) -> Shape:
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*padded, strict=True))


def contiguous_strides(shape: Shape) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def walk(roots: tuple[Node, ...] | list[Node]) -> list[Node]:
    """Every node below `roots`, sources first."""
    found: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            found.setdefault(node)
        elif node not in found:
            stack.append((node, True))
            stack.extend((s, False) for s in reversed(node.sources))
    return list(found)
