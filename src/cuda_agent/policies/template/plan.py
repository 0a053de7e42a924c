"""Which loops run around a kernel's body: chosen by where its values lie in memory, before any text is written.

`row`: the vector runs along the row, reductions end in one horizontal step. `tile`: the vector runs over neighbouring
rows, each with an accumulator of its own; also what has no reductions. `split`: too few rows for the cores, so that
each row is cut into chunks whose partial results are folded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.index import Index
from cuda_agent.policies.template.ir import Node, Point, Reduce, walk
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.statements import Accumulation, Axes, Body, Buffer, Coords, Load, Statement, Store

L2_BYTES = 256 << 10
BLOCK = 2048
"""Elements of a float sum between two additions to its double."""


@dataclass(frozen=True)
class Loop:
    """Neighbouring axes that are one loop; the last one's name stands for all."""

    name: str
    size: int
    members: Axes


def merged(axes: Axes, ranges: Mapping[str, int], indices: Sequence[Index]) -> list[Loop]:
    """Joins neighbouring axes wherever every index walks through them in one stride."""
    loops: list[Loop] = []
    for axis in axes:
        last = loops[-1].name if loops else ""
        if last and all(i.coefficient(last) == i.coefficient(axis) * ranges[axis] for i in indices):
            loops[-1] = Loop(axis, loops[-1].size * ranges[axis], (*loops[-1].members, axis))
        else:
            loops.append(Loop(axis, ranges[axis], (axis,)))
    return loops


@dataclass(frozen=True)
class Part:
    """One set of loops along the row in an odd region, and the statements in it."""

    region: int
    loops: list[Loop]
    statements: list[Statement]
    accumulations: list[Accumulation]
    stores: list[Store]

    @property
    def length(self) -> int:
        return math.prod(loop.size for loop in self.loops)

    @property
    def cost(self) -> int:
        return sum(cost_of(s) for s in self.statements)


def cost_of(statement: Statement) -> int:
    return max((cost for name, cost in cpp.COSTS.items() if f"::{name}(" in statement.template), default=1)


class Plan:
    """A body with its loops: what is fixed before any text is written."""

    def __init__(self, body: Body, knobs: Knobs, place_of: Callable[[Node], object], style: str | None = None) -> None:
        self.body, self.knobs, self.place_of = body, knobs, place_of
        self.sections = [self._closure(2 * k, self._section_ends(2 * k)) for k in range(body.phases + 1)]
        self.parts = [part for region in range(1, body.final + 1, 2) for part in self._parts(region)]
        indices = [i for s in self.live for i in indices_of(s)] + [st.index for st in body.stores]
        indices += [g for accs in body.accumulations.values() for a in accs for g, _ in a.guards]
        self.outer = merged(body.parallel, body.ranges, indices)
        self.style = style or self._style()
        self.vector: Loop | None = self.outer.pop() if self.style == "tile" and self.outer else None
        self.rows = math.prod(loop.size for loop in self.outer)
        self.tile = self._tile() if self.vector else 1
        self.split = self._needs_split()
        if self.split and self.vector:
            self.tile = self.vector.size

    @property
    def live(self) -> list[Statement]:
        return [s for section in self.sections for s in section] + [s for part in self.parts for s in part.statements]

    @property
    def work(self) -> int:
        """Operations of the whole kernel."""
        rows = self.rows * (self.vector.size if self.vector else 1)
        own = sum(cost_of(s) for section in self.sections for s in section) + len(self.body.stores)
        return rows * (own + sum((p.cost + 1) * p.length for p in self.parts))

    def _section_ends(self, region: int) -> list[Statement]:
        ends = [s for s in self.body.statements if s.region == region and any(r > region for r in s.used_in)]
        return ends + [st.value for st in self.body.stores if st.region == region and isinstance(st.value, Statement)]

    def _closure(self, region: int, ends: Sequence[Statement | str]) -> list[Statement]:
        """The statements of `region` that `ends` need, in order."""
        by_name = {s.name: s for s in self.body.statements}
        needed: set[Statement] = set()
        stack = [e for e in ends if isinstance(e, Statement)]
        while stack:
            s = stack.pop()
            if s.region != region or s in needed:
                continue
            needed.add(s)
            for argument in s.args:
                if isinstance(argument, Statement):
                    stack.append(argument)
                index = argument.index if isinstance(argument, Load) else argument
                if isinstance(index, Index):
                    stack.extend(by_name[v] for v in index.vars if v in by_name)
            if s.kind == "scan" and self.body.scan_of and isinstance(self.body.scan_of[0], Statement):
                stack.append(self.body.scan_of[0])
        return [s for s in self.body.statements if s in needed]

    def _parts(self, region: int) -> Iterator[Part]:
        body = self.body
        if region == body.final:
            stores = [s for s in body.stores if s.region == region]
            if stores:
                statements = self._closure(region, [s.value for s in stores])
                yield self._part(region, body.along, statements, [], stores)
            return
        groups: dict[object, list[Accumulation]] = {}
        for accumulation in body.accumulations.get((region + 1) // 2, []):
            groups.setdefault((accumulation.axes, accumulation.guards), []).append(accumulation)
        for group in groups.values():
            kept = [s for s in body.statements if s.region == region and s.keep_in]
            yield self._part(
                region, group[0].axes, self._closure(region, [*(a.value for a in group), *kept]), group, []
            )

    def _part(
        self,
        region: int,
        axes: Axes,
        statements: list[Statement],
        accumulations: list[Accumulation],
        stores: list[Store],
    ) -> Part:
        indices = [i for s in statements for i in indices_of(s)] + [s.index for s in stores]
        indices += [g for a in accumulations for g, _ in a.guards]
        kept = [i for s in statements if s.keep_in for i in [row_index(axes, self.body.ranges)]]
        return Part(region, merged(axes, self.body.ranges, indices + kept), statements, accumulations, stores)

    def _style(self) -> str:
        if not self.parts or not any(p.loops for p in self.parts):
            return "tile"
        if not self.outer:
            return "row"
        last = self.outer[-1]
        along = tiled = 0
        for part in self.parts:
            inner = part.loops[-1] if part.loops else None
            indices = [i for s in part.statements for i in indices_of(s)] + [s.index for s in part.stores]
            along += sum(bool(inner) and i.coefficient(inner.name) in (1, -1) for i in indices if inner)
            tiled += sum(i.coefficient(last.name) in (1, -1) for i in indices)
        longest = max(p.loops[-1].size for p in self.parts if p.loops)
        if longest < 16 and last.size > longest and (tiled or longest < 8):
            return "tile"
        return "tile" if tiled > along else "row"

    def _tile(self) -> int:
        assert self.vector is not None
        size, want = self.vector.size, self.knobs.tile
        if not want:
            want = 2048 if not self.parts else 512
            if len(self.parts) > 1:
                loads = max(
                    1,
                    max(
                        len({s.args[0].buffer for s in p.statements if s.args and isinstance(s.args[0], Load)})
                        for p in self.parts
                    ),
                )
                want = max(32, min(want, L2_BYTES // (4 * loads * max(p.length for p in self.parts)) // 16 * 16))
            while want > 64 and self.rows * -(-size // want) < 2 * self.knobs.cores:
                want //= 2
        if size <= want:
            return size
        exact = [t for t in range(want, want // 2, -1) if size % t == 0 and t % 8 == 0]
        return exact[0] if exact else want

    def _needs_split(self) -> bool:
        if not any(p.accumulations for p in self.parts) or self.body.scan is not None:
            return False
        units = self.rows * (-(-self.vector.size // self.tile) if self.vector else 1)
        width = self.vector.size if self.vector else 1
        uneven = units % self.knobs.cores and units < 4 * self.knobs.cores
        length = max(p.length for p in self.parts)
        few = units < self.knobs.cores or uneven
        return bool(few and self.rows * width <= 4096 and length >= 64 and self.rows * width * length >= 32768)


def row_index(axes: Axes, ranges: Mapping[str, int]) -> Index:
    total, stride = Index(), 1
    for axis in reversed(axes):
        total = total + Index.of(axis) * stride
        stride *= ranges[axis]
    return total


def indices_of(statement: Statement) -> list[Index]:
    return [a.index if isinstance(a, Load) else a for a in statement.args if isinstance(a, Load | Index)]


def worth_keeping(plan: Plan, limit: int = 8) -> dict[tuple[Node, Coords], tuple[int, Buffer, Axes]]:
    """Costly values that several passes along the row compute, and for which there is room in the cache."""
    body, width = plan.body, plan.tile
    passes: dict[tuple[Node, Coords], list[Part]] = {}
    for part in plan.parts:
        present = set(part.statements)
        for key, value in body.origins(part.region):
            if value in present and not any(a.guards for a in part.accumulations):
                passes.setdefault(key, []).append(part)
    shared = {key: parts for key, parts in passes.items() if len({p.region for p in parts}) > 1}
    kept: dict[tuple[Node, Coords], tuple[int, Buffer, Axes]] = {}
    budget = 2 * L2_BYTES
    for key in reversed(shared):  # the largest computations come last
        node, parts = key[0], shared[key]
        axes = tuple(m for loop in parts[0].loops for m in loop.members)
        size = math.prod(body.ranges[a] for a in axes)
        need = size * width * cpp.BYTES[node.dtype]
        inside = any(node is not other and node in set(walk([other])) for other, _ in kept)
        if inside or tree_cost(node, plan.place_of) < limit or need > budget or len(kept) == 2:
            continue
        budget -= need
        kept[key] = (min(p.region for p in parts), Buffer(f"row{len(kept)}", node.dtype, size, "row"), axes)
    return kept


def tree_cost(node: Node, place_of: Callable[[Node], object]) -> int:
    """Operations for one element of `node`, without those of reductions inside it."""
    cost, seen, stack = 0, set(), [node]
    while stack:
        current = stack.pop()
        if current in seen or place_of(current) is not None or isinstance(current, Reduce):
            continue
        seen.add(current)
        cost += cpp.COSTS.get(current.op, 1) if isinstance(current, Point) else 0
        stack.extend(current.sources)
    return cost
