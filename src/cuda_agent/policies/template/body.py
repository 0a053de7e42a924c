"""Writes what one kernel computes as statements; which loops run around them is decided in `plan`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.index import Index, NeedSplit, NotAffine, flatten, unflatten
from cuda_agent.policies.template.ir import (
    Call,
    Concat,
    Const,
    Gather,
    Node,
    Point,
    Position,
    Reduce,
    Scan,
    Shape,
    View,
    contiguous_strides,
)
from cuda_agent.policies.template.statements import (
    Accumulation,
    Axes,
    Body,
    Buffer,
    Coords,
    Load,
    NeedRealise,
    Place,
    Statement,
    Store,
    mark_use,
)


class BodyWriter:
    """Writes the body of the kernel that computes each of `roots`, which have one shape, into its place."""

    def __init__(self, roots: Sequence[tuple[Node, Place]], place_of: Callable[[Node], Place | None]) -> None:
        self.roots, self.place_of = roots, place_of
        self.root = roots[0][0]
        self.axes: dict[object, list[tuple[str, int]]] = {}
        self._axis_names: dict[str, tuple[object, int]] = {}
        self._serial = 0
        self.local: Callable[[frozenset[str]], bool] = lambda support: False
        """Whether a value that is loaded once for a row is better loaded where it is used."""
        self.kept: dict[tuple[Node, Coords], tuple[int, Buffer, Axes]] = {}
        """Values that are kept in row scratch: the region that computes them, the scratch, the axes of its index."""

    def write(self) -> Body:
        while True:
            try:
                return self._attempt()
            except NeedSplit as split:
                self._split(split.var, split.inner)

    # -- axes

    def _axis(self, key: object, size: int, prefix: str) -> Index:
        """The coordinate along an axis, which may consist of several loops."""
        if key not in self.axes:
            name = f"{prefix}{len(self.axes)}"
            self.axes[key] = [(name, size)] if size > 1 else []
        total, stride = Index(), 1
        for name, count in reversed(self.axes[key]):
            total = total + Index.of(name) * stride
            stride *= count
        return total

    def _split(self, var: str, inner: int) -> None:
        for parts in self.axes.values():
            for i, (name, size) in enumerate(parts):
                if name == var:
                    parts[i : i + 1] = [(f"{name}a", size // inner), (f"{name}b", inner)]
                    return
        raise AssertionError(var)

    @property
    def ranges(self) -> dict[str, int]:
        return {name: size for parts in self.axes.values() for name, size in parts}

    # -- the whole

    def _attempt(self) -> Body:
        coords = tuple(self._axis(("root", d), size, "i") for d, size in enumerate(self.root.shape))
        root_axes = tuple(name for d in range(len(coords)) for name, _ in self.axes[("root", d)])
        self._fused: dict[Node, None] = {}
        self._scan: Scan | None = None
        parallel = self._parallel(coords, root_axes)
        self._p = frozenset(parallel)
        self._along = tuple(a for a in root_axes if a not in self._p)
        self._memo: dict[object, Statement | str] = {}
        self._phase_memo: dict[Node, int] = {}
        self._statements: list[Statement] = []
        self._accumulations: dict[int, list[Accumulation]] = {}
        self._scan_of: tuple[Statement | str, Statement] | None = None
        phases = max((self._phase(r) for r in self._fused), default=0)
        self._final = 2 * phases + 1
        self._region = region = self._final if self._along else 2 * phases
        stores = []
        for root, place in self.roots:
            value = self.emit(root, coords)
            stores.append(Store(place.buffer, flatten(coords, place.strides, place.offset), value, region))
            mark_use(value, region)
        return Body(
            parallel,
            self._along,
            self.ranges,
            self._statements,
            self._accumulations,
            stores,
            self._scan,
            self._scan_of,
            self._memo,
        )

    def _parallel(self, coords: Coords, root_axes: Axes) -> Axes:
        supports: dict[Node, frozenset[str]] = {}
        for root, _ in self.roots:
            self._survey(root, coords, supports, set())
        if self._scan is not None:
            scan_vars = {name for name, _ in self.axes[("root", self._scan.dim)]}
            parallel = frozenset(a for a in root_axes if a not in scan_vars)
        elif supports:
            ranges = self.ranges
            parallel = max(supports.values(), key=lambda s: (math.prod(ranges[v] for v in s), sorted(s)))
        else:
            return root_axes
        for node, support in supports.items():
            if support != parallel:
                raise NeedRealise(node)
            self._fused[node] = None
        return tuple(a for a in root_axes if a in parallel)

    def _survey(self, node: Node, coords: Coords, supports: dict[Node, frozenset[str]], seen: set[object]) -> None:
        """Finds the reductions nearest to the root and the loops that they depend on."""
        if (node, coords) in seen or self.place_of(node) is not None:
            return
        seen.add((node, coords))
        if isinstance(node, Reduce):
            support = frozenset(v for c in coords for v in c.vars)
            if node in supports and supports[node] != support:
                raise NeedRealise(node)
            supports[node] = support
        elif isinstance(node, Scan):
            plain = coords == tuple(self._axis(("root", d), 0, "i") for d in range(len(self.root.shape)))
            if not plain or node.shape != self.root.shape or self._scan not in (None, node):
                raise NeedRealise(node)
            self._scan = node
        elif isinstance(node, View):
            self._survey(node.src, self._through(node, coords), supports, seen)
        elif isinstance(node, Gather):
            self._survey(node.index, self._index_coords(node, coords), supports, seen)
        elif isinstance(node, Concat | Call):
            raise NeedRealise(node)
        else:
            for source in node.sources:
                self._survey(source, coords, supports, seen)

    def _phase(self, reduce: Node) -> int:
        """1 + the latest phase whose results the reduction's source reads."""
        if reduce in self._phase_memo:
            return self._phase_memo[reduce]
        latest, seen, stack = 0, set(), list(reduce.sources)
        while stack:
            node = stack.pop()
            if node in seen or self.place_of(node) is not None:
                continue
            seen.add(node)
            if isinstance(node, Reduce):
                latest = max(latest, self._phase(node))
            else:
                stack.extend(node.sources)
        self._phase_memo[reduce] = latest + 1
        return latest + 1

    # -- expressions

    def emit(self, node: Node, coords: Coords) -> Statement | str:
        """The value of `node` at `coords`: a statement or a literal."""
        if isinstance(node, Const):
            return cpp.literal(node.value, node.dtype)
        place = self.place_of(node)
        if place is not None:
            return self._load(place, flatten(coords, place.strides, place.offset))
        if isinstance(node, View):
            through = self._contiguous_source(node, coords)
            return through if through is not None else self.emit(node.src, self._through(node, coords))
        for region in (self._region, None):
            known = self._memo.get((region, node, coords))
            if known is not None and (isinstance(known, str) or known.region <= self._region):
                return known
        kept = self.kept.get((node, coords))
        if kept is not None and self._region > kept[0] and self._region % 2:
            return self._load_kept(kept[1], kept[2])
        value = self._compute(node, coords)
        shared = isinstance(value, str) or value.region % 2 == 0
        self._memo[None if shared else self._region, node, coords] = value
        if kept is not None and isinstance(value, Statement) and value.region == kept[0]:
            value.keep_in = kept[1]
        return value

    def _compute(self, node: Node, coords: Coords) -> Statement | str:
        if isinstance(node, Position):
            return self._let(node.dtype, f"{cpp.TYPES[node.dtype]}({{0}})", coords[node.dim])
        if isinstance(node, Point):
            template = cpp.operation(node.op, node.dtype, node.args[-1].dtype)
            return self._let(node.dtype, template, *(self.emit(a, coords) for a in node.args))
        if isinstance(node, Gather):
            return self._gather(node, coords)
        if isinstance(node, Reduce):
            return self._reduce(node, coords)
        if isinstance(node, Scan):
            return self._running(node, coords)
        raise NeedRealise(node)

    def _name(self, prefix: str = "v") -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"

    def _let(self, dtype: str, template: str, *args: Statement | Index | Load | str) -> Statement:
        """A statement in the earliest region that has its arguments."""
        support: frozenset[str] = frozenset().union(*(self._support(a) for a in args))
        regions = [a.region for a in args if isinstance(a, Statement)]
        once = support <= self._p and not any(r % 2 for r in regions)
        if any(isinstance(a, Load) for a in args) and self.local(support):
            once = False
        region = max(regions, default=0) if once else self._region
        statement = Statement(self._name(), dtype, template, args, region, support)
        for argument in args:
            mark_use(argument, region)
        self._statements.append(statement)
        return statement

    def _support(self, argument: Statement | Index | Load | str) -> frozenset[str]:
        if isinstance(argument, Statement):
            return argument.support
        if isinstance(argument, Load):
            return self._support(argument.index)
        if isinstance(argument, Index):
            ranges = self.ranges
            gathered = [s for s in self._statements if s.name in argument.vars]
            return frozenset(v for v in argument.vars if v in ranges).union(*(s.support for s in gathered))
        return frozenset()

    def _load(self, place: Place, index: Index) -> Statement:
        for s in self._statements:
            if s.name in index.vars:
                s.used_in.add(self._region)
        for region in (self._region, None):
            known = self._memo.get((region, place.buffer, index))
            if isinstance(known, Statement) and known.region <= self._region:
                return known
        value = self._let(place.buffer.dtype, "{0}", Load(place.buffer, index))
        hoisted = value.support <= self._p and not self.local(value.support)
        self._memo[None if hoisted else self._region, place.buffer, index] = value
        return value

    def _load_kept(self, buffer: Buffer, axes: Axes) -> Statement:
        value = self._load(Place(buffer, ()), self.row_index(axes))
        value.support |= self._p  # each row has its own scratch
        return value

    def row_index(self, axes: Axes) -> Index:
        """The flat index along a row."""
        ranges = self.ranges
        return flatten(tuple(Index.of(a) for a in axes), contiguous_strides(tuple(ranges[a] for a in axes)))

    # -- views

    def _contiguous_source(self, node: View, coords: Coords) -> Statement | None:
        """A reshape of contiguous memory needs no coordinates, only the flat index."""
        place = self.place_of(node.src)
        if node.kind != "reshape" or place is None or place.strides != contiguous_strides(node.src.shape):
            return None
        return self._load(place, flatten(coords, contiguous_strides(node.shape), place.offset))

    def _through(self, node: View, coords: Coords) -> Coords:
        """The coordinates in the source of a view. Raises NeedSplit and NeedRealise."""
        if node.kind == "expand":
            return tuple(Index() if size == 1 else c for c, size in zip(coords, node.src.shape, strict=True))
        if node.kind == "permute":
            back = [Index()] * len(coords)
            for c, d in zip(coords, node.data, strict=True):
                back[d] = c
            return tuple(back)
        if node.kind == "slice":
            return tuple(c * step + start for c, (start, step) in zip(coords, node.data, strict=True))
        if node.kind == "flip":
            return tuple(c * -1 + (node.shape[d] - 1) if d in node.data else c for d, c in enumerate(coords))
        if node.kind == "window":
            inner = list(coords[: len(node.src.shape)])
            for (d, _, stride, padding, dilation), k in zip(node.data, coords[len(inner) :], strict=True):
                inner[d] = inner[d] * stride + k * dilation + -padding
            return tuple(inner)
        if self.place_of(node.src) is not None and not isinstance(node.src, View):
            return (Index(),) * len(node.src.shape)  # loaded by its flat index, never by these
        try:
            return unflatten(flatten(coords, contiguous_strides(node.shape)), node.src.shape, self.ranges)
        except NotAffine:
            raise NeedRealise(node.src) from None

    def _index_coords(self, node: Gather, coords: Coords) -> Coords:
        return coords if node.aligned else coords[node.dim : node.dim + len(node.index.shape)]

    def _gather(self, node: Gather, coords: Coords) -> Statement | str:
        place = self.emit(node.index, self._index_coords(node, coords))
        where = Index((), int(place)) if isinstance(place, str) else Index.of(place.name)
        if node.aligned:
            inner = (*coords[: node.dim], where, *coords[node.dim + 1 :])
        else:
            inner = (*coords[: node.dim], where, *coords[node.dim + len(node.index.shape) :])
        return self.emit(node.src, inner)

    # -- reductions and scans

    def _reduce(self, node: Reduce, coords: Coords) -> Statement:
        support = frozenset(v for c in coords for v in c.vars)
        if support != self._p:
            raise NeedRealise(node)
        phase = self._phase(node)
        if 2 * phase >= self._final + 1:
            raise NeedRealise(node)
        inner, axes = self._row_coords(node, coords)
        outer_region, self._region = self._region, 2 * phase - 1
        value = self.emit(node.src, inner)
        mark_use(value, self._region)
        guards = self._guards(node.src, inner)
        self._region = outer_region
        result = Statement(self._name("r"), node.dtype, "", (), 2 * phase, self._p, kind="reduce")
        self._statements.append(result)
        self._accumulations.setdefault(phase, []).append(Accumulation(node.op, value, result, axes, guards))
        return result

    def _row_coords(self, node: Reduce, coords: Coords) -> tuple[Coords, Axes]:
        """Coordinates in the reduction's source: the root's own loops where they run along the same row."""
        sizes = tuple(node.src.shape[d] for d in node.dims)
        ranges = self.ranges
        window = isinstance(node.src, View) and node.src.kind == "window"
        if self._along and not window and math.prod(ranges[a] for a in self._along) == math.prod(sizes):
            try:
                found: Iterable[Index] = unflatten(self.row_index(self._along), sizes, ranges)
                axes = self._along
            except NotAffine:
                found, axes = self._own_axes(sizes)
        else:
            found, axes = self._own_axes(sizes)
        inner = list(coords)
        for d, index in zip(node.dims, found, strict=True):
            inner[d] = index
        return tuple(inner), axes

    def _own_axes(self, sizes: Shape) -> tuple[list[Index], Axes]:
        found = [self._axis((sizes, i), size, "k") for i, size in enumerate(sizes)]
        return found, tuple(name for i in range(len(sizes)) for name, _ in self.axes[(sizes, i)])

    def _guards(self, source: Node, coords: Coords) -> tuple[tuple[Index, int], ...]:
        if not (isinstance(source, View) and source.kind == "window"):
            return ()
        inner = self._through(source, coords)
        guards = []
        for d, *_ in source.data:
            low, high = self._bounds(inner[d])
            if low < 0 or high >= source.src.shape[d]:
                guards.append((inner[d], source.src.shape[d]))
        return tuple(guards)

    def _bounds(self, index: Index) -> tuple[int, int]:
        ranges = self.ranges
        spans = [c * (ranges[v] - 1) for v, c in index.terms]
        return index.const + sum(min(0, s) for s in spans), index.const + sum(max(0, s) for s in spans)

    def _running(self, node: Scan, coords: Coords) -> Statement:
        if node is not self._scan or self._region != self._final:
            raise NeedRealise(node)
        value = self.emit(node.src, coords)
        support = self._p | frozenset(v for v in coords[node.dim].vars)
        result = Statement(self._name("s"), node.dtype, "", (), self._final, support, kind="scan")
        mark_use(value, self._final)
        self._statements.append(result)
        self._scan_of = (value, result)
        return result
