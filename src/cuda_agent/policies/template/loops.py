"""Loops around a kernel's body, chosen by where its values lie in memory, and their C++.

`row`: the vector runs along the row, reductions end in one horizontal step. `tile`: the vector runs over neighbouring
rows, each with an accumulator of its own; also what has no reductions. `split`: too few rows for the cores, so that
each row is cut into chunks whose partial results are folded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.body import (
    Accumulation, Axes, Body, BodyWriter, Buffer, Coords, Load, Statement, Store,
)
from cuda_agent.policies.template.index import Index
from cuda_agent.policies.template.ir import Node, Point, Reduce, walk
from cuda_agent.policies.template.knobs import Knobs

L2_BYTES = 256 << 10
CHUNKS = 16
BLOCK = 2048
"""Elements of a float sum between two additions to its double."""
LINE = 1024
"""Elements that are collected before they are streamed out."""


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
        return sum(_cost(s) for s in self.statements)


def _cost(statement: Statement) -> int:
    return max((cost for name, cost in cpp.COSTS.items() if f"::{name}(" in statement.template), default=1)


class Plan:
    """A body with its loops: what is fixed before any text is written."""

    def __init__(self, body: Body, knobs: Knobs, place_of: Callable[[Node], object], style: str | None = None) -> None:
        self.body, self.knobs, self.place_of = body, knobs, place_of
        self.sections = [self._closure(2 * k, self._section_ends(2 * k)) for k in range(body.phases + 1)]
        self.parts = [part for region in range(1, body.final + 1, 2) for part in self._parts(region)]
        indices = [i for s in self.live for i in _indices(s)] + [st.index for st in body.stores]
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
        own = sum(_cost(s) for section in self.sections for s in section) + len(self.body.stores)
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
            yield self._part(region, group[0].axes, self._closure(region, [*(a.value for a in group), *kept]), group, [])

    def _part(self, region: int, axes: Axes, statements: list[Statement], accumulations: list[Accumulation],
              stores: list[Store]) -> Part:
        indices = [i for s in statements for i in _indices(s)] + [s.index for s in stores]
        indices += [g for a in accumulations for g, _ in a.guards]
        kept = [i for s in statements if s.keep_in for i in [_row_index(axes, self.body.ranges)]]
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
            indices = [i for s in part.statements for i in _indices(s)] + [s.index for s in part.stores]
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
                loads = max(1, max(len({s.args[0].buffer for s in p.statements if s.args and isinstance(s.args[0], Load)})
                                   for p in self.parts))
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


def _row_index(axes: Axes, ranges: Mapping[str, int]) -> Index:
    total, stride = Index(), 1
    for axis in reversed(axes):
        total = total + Index.of(axis) * stride
        stride *= ranges[axis]
    return total


def _indices(statement: Statement) -> list[Index]:
    return [a.index if isinstance(a, Load) else a for a in statement.args if isinstance(a, Load | Index)]


@dataclass
class Kernel:
    """A static C++ function and what it takes, in order."""

    name: str
    text: str
    reads: list[Buffer]
    writes: list[Buffer]
    style: str
    in_place: list[Buffer] = field(default_factory=list)
    """Results of library calls whose memory the kernel's result may take: each element is read before it is written."""

    @property
    def buffers(self) -> list[Buffer]:
        return self.writes + [b for b in self.reads if b not in self.writes]


def write_kernel(name: str, writer: BodyWriter, knobs: Knobs, comment: str) -> Kernel:
    """The kernel of a body. Raises what the body's writer raises."""
    plan = Plan(writer.write(), knobs, writer.place_of)
    if plan.vector is not None or plan.split:
        vector = frozenset(plan.vector.members if plan.vector else ())
        split, style = plan.split, plan.style
        writer.local = lambda support: split or bool(support & vector)
        plan = Plan(writer.write(), knobs, writer.place_of, style)
    if knobs.keep and not plan.split and plan.body.scan is None:
        kept = _worth_keeping(plan)
        if kept:
            writer.kept = kept
            plan = Plan(writer.write(), knobs, writer.place_of, plan.style)
    return Renderer(name, plan, comment).kernel()


def _worth_keeping(plan: Plan, limit: int = 8) -> dict[tuple[Node, Coords], tuple[int, Buffer, Axes]]:
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


class Renderer:
    """Writes the text of one kernel."""

    def __init__(self, name: str, plan: Plan, comment: str) -> None:
        self.name, self.plan, self.body, self.comment = name, plan, plan.body, comment
        self.lines: list[str] = []
        self.depth = 0
        self.names = {s.name: s for s in plan.body.statements}
        self.parallel = plan.work >= plan.knobs.serial
        self.streams = False
        self.lane: tuple[str, int, str] = ("", 0, "")
        """While one of several parallel accumulations is written: the loop, the offset in it, the names' suffix."""
        self.in_lane: set[Statement] = set()

    # -- text ---------------------------------------------------------------------------------------------------------

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.put(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.put("}")

    def kernel(self) -> Kernel:
        written = [s.buffer for s in self.body.stores]
        loads = [a.buffer for s in self.plan.live for a in s.args if isinstance(a, Load)]
        reads = list(dict.fromkeys(b for b in loads if b.kind != "row"))
        kernel = Kernel(self.name, "", reads, list(dict.fromkeys(written)), self.plan.style + ("/split" if self.plan.split else ""))
        both = set(kernel.reads) & set(kernel.writes)
        parameters = [f"{'' if b in kernel.writes else 'const '}{cpp.TYPES[b.dtype]}* {'' if b in both else '__restrict '}{b.name}"
                      for b in kernel.buffers]
        self.put(f"// {self.comment}")
        with self.block(f"static void {self.name}({', '.join(parameters)})"):
            if self.plan.split:
                self._split_body()
            else:
                self._plain_body()
            if self.streams and not self.parallel:
                self.put("stream_end();")
        return Kernel(self.name, "\n".join(self.lines), kernel.reads, kernel.writes, kernel.style, self._in_place(kernel))

    def _in_place(self, kernel: Kernel) -> list[Buffer]:
        if len(self.body.stores) > 1:
            return []
        store = self.body.stores[0]
        loads = [a for s in self.plan.live for a in s.args if isinstance(a, Load)]
        fits = [b for b in kernel.reads if b.kind == "call" and (b.numel, b.dtype) == (store.buffer.numel, store.buffer.dtype)]
        return [b for b in fits if all(a.index == store.index for a in loads if a.buffer == b)]

    # -- expressions --------------------------------------------------------------------------------------------------

    def is_array(self, s: Statement) -> bool:
        """Whether a value of a section is an array over the rows of a tile (tile) or over all rows (split)."""
        if s.region % 2:
            return False
        crosses = s.kind == "reduce" or any(r != s.region for r in s.used_in)
        if self.plan.split:
            return crosses and self._row_count > 1
        return crosses and self._is_vector(s)

    def _is_vector(self, s: Statement) -> bool:
        return self.plan.vector is not None and bool(s.support & set(self.plan.vector.members))

    @property
    def _row_count(self) -> int:
        return self.plan.rows * (self.plan.vector.size if self.plan.vector else 1)

    def ref(self, value: Statement | str) -> str:
        if isinstance(value, str):
            return value
        if not self.is_array(value):
            return value.name + (self.lane[2] if value in self.in_lane else "")
        return f"{value.name}[{self._row_text() if self.plan.split else 't'}]"

    def _row_text(self) -> str:
        """The flat number of a row among all of them."""
        terms, stride = [], self.plan.vector.size if self.plan.vector else 1
        for loop in reversed(self.plan.outer):
            terms.append(loop.name if stride == 1 else f"{stride} * {loop.name}")
            stride *= loop.size
        return " + ".join([*reversed(terms), *(["t"] if self.plan.vector else [])]) or "0"

    def index(self, index: Index, loops: Sequence[Loop], *, base: str | None = None) -> str:
        """C++ of an index; `base` puts this text in the place of the vector's position."""
        plan = self.plan
        changes: dict[str, Index] = {}
        for loop in [*plan.outer, *loops, *([plan.vector] if plan.vector else [])]:
            changes |= {m: Index() for m in loop.members[:-1]}
        if plan.vector:
            place = Index() if base == "" else Index.of(base or "t")
            changes[plan.vector.name] = place + Index.of("t0") if self._tiled else place
        index = index.substitute(changes)
        if self.lane[0]:
            index = index.substitute({self.lane[0]: Index.of(self.lane[0]) + self.lane[1]})
        names = {v: self.ref(self.names[v]) for v, _ in index.terms if v in self.names}
        return Index(tuple((names.get(v, v), c) for v, c in index.terms), index.const).text()

    @property
    def _tiled(self) -> bool:
        return self.plan.vector is not None and self.plan.tile < self.plan.vector.size

    def expression(self, s: Statement, loops: Sequence[Loop]) -> str:
        texts = []
        for a in s.args:
            if isinstance(a, Load):
                texts.append(f"{a.buffer.name}[{self._load_index(a, loops)}]")
            elif isinstance(a, Index):
                texts.append(self.index(a, loops))
            else:
                texts.append(self.ref(a))
        return s.template.format(*texts)

    def _load_index(self, load: Load, loops: Sequence[Loop]) -> str:
        if load.buffer.kind != "row":
            return self.index(load.index, loops)
        return self._kept_index(load.index, loops)

    def _kept_index(self, index: Index, loops: Sequence[Loop]) -> str:
        text = self.index(index, loops)
        return text if not self.plan.vector else f"({text}) * {self.plan.tile} + t"

    def let(self, s: Statement, loops: Sequence[Loop]) -> None:
        if s.kind == "scan":
            self._scan_step(s)
        if s.kind != "let":
            return
        text = self.expression(s, loops)
        if self.is_array(s):
            self.put(f"{self.ref(s)} = {text};")
        else:
            self.put(f"const {cpp.TYPES[s.dtype]} {self.ref(s)} = {text};")
        if s.keep_in is not None:
            axes = tuple(m for loop in loops for m in loop.members)
            self.put(f"{s.keep_in.name}[{self._kept_index(_row_index(axes, self.body.ranges), loops)}] = {self.ref(s)};")

    # -- loops --------------------------------------------------------------------------------------------------------

    def _plain_body(self) -> None:
        plan = self.plan
        heads = [f"for (int64_t {p.name} = 0; {p.name} < {p.size}; ++{p.name})" for p in plan.outer]
        if self._together > 1:
            heads[-1] = heads[-1].replace(f"++{plan.outer[-1].name}", f"{plan.outer[-1].name} += {self._together}")
        if self._tiled:
            assert plan.vector is not None
            heads.append(f"for (int64_t t0 = 0; t0 < {plan.vector.size}; t0 += {plan.tile})")
        if heads and self.parallel:
            collapse = f" collapse({len(heads)})" if len(heads) > 1 else ""
            self.put(f"#pragma omp parallel for{collapse} schedule(static)")
        for head in heads[:-1]:
            self.put(head)
        with self.block(heads[-1] if heads else ""):
            if self._tiled:
                assert plan.vector is not None
                exact = plan.vector.size % plan.tile == 0
                self.put(f"const int64_t n = {plan.tile};" if exact
                         else f"const int64_t n = std::min<int64_t>({plan.tile}, {plan.vector.size} - t0);")
            self._declare_arrays()
            for k, section in enumerate(plan.sections):
                self._section(section, 2 * k)
                for part in [p for p in plan.parts if p.region == 2 * k + 1]:
                    self._part(part)
            if self.streams and self.parallel:
                self.put("stream_end();")

    @property
    def _count(self) -> str:
        """The number of elements of the vector loop."""
        if self._tiled:
            return "n"
        return str(self.plan.vector.size) if self.plan.vector else "1"

    def _declare_arrays(self) -> None:
        for buffer in dict.fromkeys(s.keep_in for s in self.plan.live if s.keep_in):
            assert buffer is not None
            self.put(f"alignas(64) {cpp.TYPES[buffer.dtype]} {buffer.name}[{buffer.numel * self.plan.tile}];")
        for s in self.plan.live:
            if self.is_array(s) and s.kind != "reduce":
                self.put(f"alignas(64) {cpp.TYPES[s.dtype]} {s.name}[{self.plan.tile}];")

    def _section(self, statements: list[Statement], region: int) -> None:
        stores = [s for s in self.body.stores if s.region == region]
        for s in statements:
            if not self._is_vector(s):
                self.let(s, ())
        vector = [s for s in statements if self._is_vector(s) and s.kind == "let"]
        if self.plan.vector is None:
            for store in stores:
                self.put(f"{store.buffer.name}[{self.index(store.index, ())}] = {self.ref(store.value)};")
        elif vector or stores:
            self._vector_loop(vector, stores, ())

    def _vector_loop(self, statements: list[Statement], stores: list[Store], loops: Sequence[Loop],
                     bounds: tuple[str, str] | None = None, steps: Callable[[], None] | None = None) -> None:
        """One loop over the tile."""
        low, high = bounds or ("0", self._count)
        lines = [s for s in stores if self._streamed(s, self.plan.vector)]
        for store in lines:
            self.put(f"alignas(64) {cpp.TYPES[store.buffer.dtype]} line_{store.buffer.name}[{self.plan.tile}];")
        self.put("#pragma omp simd")
        with self.block(f"for (int64_t t = {low}; t < {high}; ++t)"):
            for s in statements:
                self.let(s, loops)
            if steps:
                steps()
            for store in stores:
                target = (f"line_{store.buffer.name}[t]" if store in lines
                          else f"{store.buffer.name}[{self.index(store.index, loops)}]")
                self.put(f"{target} = {self.ref(store.value)};")
        for store in lines:
            self.streams = True
            self.put(f"stream(&{store.buffer.name}[{self.index(store.index, loops, base='')}], line_{store.buffer.name}, "
                     f"{self._count});")

    def _streamed(self, store: Store, along: Loop | None) -> bool:
        if not self.plan.knobs.stream or store.buffer.numel * cpp.BYTES[store.buffer.dtype] < 1 << 20 or along is None:
            return False
        reads = {a.buffer for s in self.plan.live for a in s.args if isinstance(a, Load)}
        return store.index.coefficient(along.name) == 1 and along.size >= 64 and store.buffer not in reads

    def _open(self, loops: Sequence[Loop], first: tuple[str, str] | None = None, backwards: bool = False) -> None:
        for i, loop in enumerate(loops):
            low, high = first if first and i == 0 else ("0", str(loop.size))
            head = f"int64_t {loop.name} = {low}; {loop.name} < {high}; ++{loop.name}"
            if backwards:
                head = f"int64_t {loop.name} = {high} - 1; {loop.name} >= {low}; --{loop.name}"
            self.put(f"for ({head}) {{")
            self.depth += 1

    def _close(self, count: int) -> None:
        for _ in range(count):
            self.depth -= 1
            self.put("}")

    def _part(self, part: Part, first: tuple[str, str] | None = None) -> None:
        """The loops of one part; `first` bounds the outermost one. Results stay in the accumulators' own arrays."""
        if part.region == self.body.final:
            if self.plan.vector:
                self._tile_final(part, first)
            else:
                self._row_final(part, first)
        elif self.plan.vector:
            self._tile_phase(part, first)
        else:
            self._row_phase(part, first)

    # tile: every element of the tile has an accumulator of its own

    def _tile_phase(self, part: Part, first: tuple[str, str] | None) -> None:
        outer = part.loops
        inner_count = math.prod(loop.size for loop in outer[1:])
        long_sum = part.length > BLOCK // 4 and any(self._in_double(a) for a in part.accumulations)
        for a in part.accumulations:
            self._declare_tile(a, long_sum)
        if not long_sum:
            self._tile_accumulate(part, outer, first, "")
        else:
            low, high = first or ("0", str(outer[0].size))
            block = max(1, BLOCK // 4 // inner_count)
            name = outer[0].name
            with self.block(f"for (int64_t {name}_0 = {low}; {name}_0 < {high}; {name}_0 += {block})"):
                self.put(f"const int64_t {name}_1 = std::min<int64_t>({name}_0 + {block}, {high});")
                for a in part.accumulations:
                    if self._in_double(a):
                        self._fill(f"{a.result.name}_b", "float", "0")
                self._tile_accumulate(part, outer, (f"{name}_0", f"{name}_1"), "_b")
                for a in part.accumulations:
                    if self._in_double(a):
                        self.put(f"for (int64_t t = 0; t < {self._count}; ++t) {a.result.name}_d[t] += {a.result.name}_b[t];")
        for a in part.accumulations:
            if long_sum and self._in_double(a) and not self.plan.split:
                self.put(f"for (int64_t t = 0; t < {self._count}; ++t) {a.result.name}[t] = float({a.result.name}_d[t]);")

    def _in_double(self, a: Accumulation) -> bool:
        return a.op == "sum" and a.result.dtype == "float32"

    def _declare_tile(self, a: Accumulation, long_sum: bool) -> None:
        name, kind = a.result.name, cpp.accumulator(a.op, a.result.dtype)
        own = f"{name}_a" if self.plan.split else name
        if long_sum and self._in_double(a):
            self._fill(f"{name}_d", "double", "0")
            if not self.plan.split:
                self.put(f"alignas(64) float {own}[{self.plan.tile}];")
            return
        self._fill(own, kind, cpp.fold(a.op, a.result.dtype).start)

    def _fill(self, name: str, kind: str, value: str) -> None:
        self.put(f"alignas(64) {kind} {name}[{self.plan.tile}];")
        self.put(f"for (int64_t t = 0; t < {self._count}; ++t) {name}[t] = {value};")

    def _tile_accumulate(self, part: Part, loops: Sequence[Loop], first: tuple[str, str] | None, suffix: str) -> None:
        self._open(loops, first)
        guards = part.accumulations[0].guards
        assert self.plan.vector is not None
        vector_guards = [g for g in guards if g[0].coefficient(self.plan.vector.name)]
        for index, size in guards:
            if (index, size) not in vector_guards:
                text = self.index(index, loops)
                self.put(f"if (({text}) < 0 || ({text}) >= {size}) continue;")
        scalars = [s for s in part.statements if not self._is_vector(s)]
        for s in scalars:
            self.let(s, loops)
        bounds = self._vector_bounds(vector_guards, loops)

        def steps() -> None:
            for a in part.accumulations:
                own = a.result.name + ("_b" if suffix and self._in_double(a) else "_a" if self.plan.split else "")
                step = cpp.nan_fold(a.op, a.result.dtype).format(f"{own}[t]", self.ref(a.value))
                self.put(f"{own}[t] = {step};")

        self._vector_loop([s for s in part.statements if self._is_vector(s)], [], loops, bounds, steps)
        self._close(len(loops))

    def _vector_bounds(self, guards: list[tuple[Index, int]], loops: Sequence[Loop]) -> tuple[str, str] | None:
        if not guards:
            return None
        lows, highs = ["0"], [f"int64_t({self._count})"]
        assert self.plan.vector is not None
        for index, size in guards:
            stride = index.coefficient(self.plan.vector.name)
            rest = self.index(index, loops, base="")
            lows.append(f"ceil_divide(-({rest}), {stride})")
            highs.append(f"floor_divide<int64_t>({size - 1} - ({rest}), {stride}) + 1")
        self.put(f"const int64_t low = std::max<int64_t>({{{', '.join(lows)}}}), high = std::min<int64_t>({{{', '.join(highs)}}});")
        return "low", "high"

    def _tile_final(self, part: Part, first: tuple[str, str] | None) -> None:
        self._declare_scan()
        self._open(part.loops, first, self._backwards)
        for s in part.statements:
            if not self._is_vector(s):
                self.let(s, part.loops)
        self._vector_loop([s for s in part.statements if self._is_vector(s)], part.stores, part.loops)
        self._close(len(part.loops))

    # scans: the running value of each row lives outside the loops along it

    @property
    def _backwards(self) -> bool:
        return self.body.scan is not None and self.body.scan.reverse

    def _scan_kind(self, dtype: str) -> str:
        assert self.body.scan is not None
        wide = dtype == "float32" and self.body.scan.op in ("sum", "prod")
        return "double" if wide else cpp.TYPES[dtype]

    def _declare_scan(self) -> None:
        if self.body.scan is None or self.body.scan_of is None:
            return
        result = self.body.scan_of[1]
        kind, start = self._scan_kind(result.dtype), cpp.fold(self.body.scan.op, result.dtype).start
        if self.plan.vector:
            self._fill(f"{result.name}_a", kind, start)
        else:
            self.put(f"{kind} {self.ref(result)}_a = {start};")

    def _scan_step(self, s: Statement) -> None:
        assert self.body.scan is not None and self.body.scan_of is not None
        scan, own = self.body.scan, f"{self.ref(s)}_a" + ("[t]" if self.plan.vector else "")
        step = f"{own} = {cpp.nan_fold(scan.op, s.dtype).format(own, self.ref(self.body.scan_of[0]))};"
        value = f"const {cpp.TYPES[s.dtype]} {self.ref(s)} = {cpp.TYPES[s.dtype]}({own});"
        for line in (value, step) if scan.exclusive else (step, value):
            self.put(line)

    @property
    def _together(self) -> int:
        """How many rows a scan along rows takes at a time."""
        plan = self.plan
        if self.body.scan is None or plan.vector or not plan.outer or any(plan.sections) or self.body.phases:
            return 1
        return next(n for n in (plan.knobs.rows, 4, 2, 1) if plan.outer[-1].size % n == 0)

    def _row_scan(self, part: Part) -> None:
        together = self._together
        lanes = [(self.plan.outer[-1].name, n, f"_{n}" if n else "") if together > 1 else ("", 0, "") for n in range(together)]
        self.in_lane = set(part.statements)
        for self.lane in lanes:
            self._declare_scan()
        self._open(part.loops, None, self._backwards)
        for self.lane in lanes:
            for s in part.statements:
                self.let(s, part.loops)
            for store in part.stores:
                self.put(f"{store.buffer.name}[{self.index(store.index, part.loops)}] = {self.ref(store.value)};")
        self._close(len(part.loops))
        self.lane, self.in_lane = ("", 0, ""), set()

    # row: the vector runs along the row

    def _row_phase(self, part: Part, first: tuple[str, str] | None) -> None:
        outer, inner = part.loops[:-1], part.loops[-1]
        accs = part.accumulations
        blocked = inner.size > BLOCK and any(self._in_double(a) for a in accs)
        nested = bool(outer) or blocked or first is not None
        for a in accs:
            kind = "double" if nested and self._in_double(a) else cpp.accumulator(a.op, a.result.dtype)
            self.put(f"{kind} {a.result.name}_t = {cpp.fold(a.op, a.result.dtype).start};")
            if self._nan(a):
                self.put(f"int {a.result.name}_nan = 0;")
        bounds = ("0", str(inner.size))
        if first and not outer:
            bounds, first = first, None
        self._open(outer, first)
        if blocked:
            name = inner.name
            self.put(f"for (int64_t {name}_0 = {bounds[0]}; {name}_0 < {bounds[1]}; {name}_0 += {BLOCK}) {{")
            self.depth += 1
            self.put(f"const int64_t {name}_1 = std::min<int64_t>({name}_0 + {BLOCK}, {bounds[1]});")
            bounds = (f"{name}_0", f"{name}_1")
        self._row_inner(part, bounds, nested)
        self._close(len(outer) + blocked)
        if not self.plan.split:
            for a in accs:
                self._finish_row(a, f"{a.result.name}_t", f"{a.result.name}_nan")

    def _nan(self, a: Accumulation) -> bool:
        return a.op in ("max", "min") and a.result.dtype.startswith("float")

    def _row_inner(self, part: Part, bounds: tuple[str, str], nested: bool) -> None:
        inner, loops = part.loops[-1], part.loops
        scalars = [s for s in part.statements if not self._varies(s, inner)]
        varying = [s for s in part.statements if self._varies(s, inner)]
        for s in scalars:
            self.let(s, loops)
        lanes = self._lanes(part, bounds)
        accs = part.accumulations
        clauses: dict[str, list[str]] = {}
        for a in accs:
            fold = cpp.fold(a.op, a.result.dtype)
            locals_ = [self._local(a, nested, lane) for lane in range(lanes)]
            for lane, local in enumerate(locals_):
                if nested or lane:
                    self.put(f"{cpp.accumulator(a.op, a.result.dtype)} {local} = {fold.start};")
            clauses.setdefault(fold.clause, []).extend(locals_)
            if self._nan(a):
                clauses.setdefault("|", []).append(f"{a.result.name}_nan")
        self.put("#pragma omp simd " + " ".join(f"reduction({op}:{', '.join(v)})" for op, v in clauses.items()))
        high = bounds[1] if lanes == 1 else str(inner.size // lanes)
        with self.block(f"for (int64_t {inner.name} = {bounds[0]}; {inner.name} < {high}; ++{inner.name})"):
            for lane in range(lanes):
                if lanes > 1:
                    self.lane = (inner.name, lane * (inner.size // lanes), f"_{lane}" if lane else "")
                    self.in_lane = set(varying)
                for s in varying:
                    self.let(s, loops)
                for a in accs:
                    local, value = self._local(a, nested, lane), self.ref(a.value)
                    self.put(f"{local} = {cpp.fold(a.op, a.result.dtype).step.format(local, value)};")
                    if self._nan(a):
                        self.put(f"{a.result.name}_nan |= {value} != {value};")
            self.lane, self.in_lane = ("", 0, ""), set()
        for a in accs:
            total, step = f"{a.result.name}_t", cpp.fold(a.op, a.result.dtype).step
            for lane in range(lanes):
                local = self._local(a, nested, lane)
                if local != total:
                    self.put(f"{total} = {step.format(total, local)};")

    def _local(self, a: Accumulation, nested: bool, lane: int) -> str:
        return f"{a.result.name}_{'l' if nested else 't'}{lane or ''}"

    def _lanes(self, part: Part, bounds: tuple[str, str]) -> int:
        """How many accumulations run side by side: sums wait for each other's result, in the cache at least."""
        lanes, size = self.plan.knobs.lanes, part.loops[-1].size
        cheap = part.cost <= 12 and len(part.accumulations) == 1
        fits = bounds == ("0", str(size)) and size % (lanes * 16) == 0 and lanes * 32 <= size <= 2 * BLOCK
        return lanes if cheap and fits else 1

    def _varies(self, s: Statement, loop: Loop) -> bool:
        return bool(s.support & set(loop.members)) or s.keep_in is not None

    def _finish_row(self, a: Accumulation, total: str, nan: str) -> None:
        kind = cpp.TYPES[a.result.dtype]
        value = f"{kind}({total})"
        if self._nan(a):
            value = f"{nan} ? {kind}(NAN) : {total}"
        if self.plan.split and self.is_array(a.result):
            self.put(f"{self.ref(a.result)} = {value};")
        else:
            self.put(f"const {kind} {a.result.name} = {value};")

    def _row_final(self, part: Part, first: tuple[str, str] | None) -> None:
        if self.body.scan is not None:
            self._row_scan(part)
            return
        outer, inner = part.loops[:-1], part.loops[-1]
        bounds = ("0", str(inner.size))
        if first and not outer:
            bounds, first = first, None
        self._open(outer, first)
        for s in part.statements:
            if not self._varies(s, inner):
                self.let(s, part.loops)
        lines = [s for s in part.stores if self._streamed(s, inner)]
        depth = 0
        if lines:
            name = inner.name
            for store in lines:
                self.put(f"alignas(64) {cpp.TYPES[store.buffer.dtype]} line_{store.buffer.name}[{LINE}];")
            self.put(f"for (int64_t {name}_0 = {bounds[0]}; {name}_0 < {bounds[1]}; {name}_0 += {LINE}) {{")
            self.depth, depth = self.depth + 1, 1
            self.put(f"const int64_t {name}_1 = std::min<int64_t>({name}_0 + {LINE}, {bounds[1]});")
            bounds = (f"{name}_0", f"{name}_1")
        self.put("#pragma omp simd")
        with self.block(f"for (int64_t {inner.name} = {bounds[0]}; {inner.name} < {bounds[1]}; ++{inner.name})"):
            for s in part.statements:
                if self._varies(s, inner):
                    self.let(s, part.loops)
            for store in part.stores:
                target = (f"line_{store.buffer.name}[{inner.name} - {bounds[0]}]" if store in lines
                          else f"{store.buffer.name}[{self.index(store.index, part.loops)}]")
                self.put(f"{target} = {self.ref(store.value)};")
        for store in lines:
            self.streams = True
            start = store.index.substitute({inner.name: Index.of(bounds[0])})
            self.put(f"stream(&{store.buffer.name}[{self.index(start, part.loops)}], line_{store.buffer.name}, "
                     f"{bounds[1]} - {bounds[0]});")
        self._close(len(outer) + depth)

    # -- split --------------------------------------------------------------------------------------------------------

    def _split_body(self) -> None:
        rows = self._row_count
        for s in self.plan.live:
            if self.is_array(s):
                self.put(f"alignas(64) static thread_local {cpp.TYPES[s.dtype]} {s.name}_rows[{rows}];")
                self.put(f"{cpp.TYPES[s.dtype]}* const {s.name} = {s.name}_rows;")
        for k, section in enumerate(self.plan.sections):
            self._split_section(section, 2 * k)
            for part in [p for p in self.plan.parts if p.region == 2 * k + 1]:
                if part.region == self.body.final:
                    self._split_final(part)
                else:
                    self._split_phase(part)

    def _split_section(self, statements: list[Statement], region: int) -> None:
        lets = [s for s in statements if s.kind == "let"]
        stores = [s for s in self.body.stores if s.region == region]
        if not lets and not stores:
            return
        if self._row_count == 1:
            for s in lets:
                self.let(s, ())
            for store in stores:
                self.put(f"{store.buffer.name}[{self.index(store.index, ())}] = {self.ref(store.value)};")
            return
        self._open(self.plan.outer)
        if self.plan.vector:
            self.put(f"for (int64_t t = 0; t < {self.plan.vector.size}; ++t) {{")
            self.depth += 1
        for s in lets:
            self.let(s, ())
        for store in stores:
            self.put(f"{store.buffer.name}[{self.index(store.index, ())}] = {self.ref(store.value)};")
        self._close(len(self.plan.outer) + bool(self.plan.vector))

    def _chunks(self, part: Part) -> int:
        return min(CHUNKS, part.loops[0].size)

    def _open_chunks(self, part: Part) -> None:
        chunks, size = self._chunks(part), part.loops[0].size
        collapse = f" collapse({len(self.plan.outer) + 1})" if self.plan.outer else ""
        self.put(f"#pragma omp parallel for{collapse} schedule(static)")
        for loop in self.plan.outer:
            self.put(f"for (int64_t {loop.name} = 0; {loop.name} < {loop.size}; ++{loop.name})")
        self.put(f"for (int64_t c = 0; c < {chunks}; ++c) {{")
        self.depth += 1
        self.put(f"const int64_t from = {size} * c / {chunks}, to = {size} * (c + 1) / {chunks};")

    def _split_phase(self, part: Part) -> None:
        chunks, width = self._chunks(part), self.plan.tile
        for a in part.accumulations:
            kind = "double" if self._in_double(a) else cpp.accumulator(a.op, a.result.dtype)
            name = a.result.name
            self.put(f"static thread_local {kind} {name}_all[{self._row_count * chunks}];")
            self.put(f"{kind}* const {name}_part = {name}_all;")
            if self._nan(a) and not self.plan.vector:
                self.put(f"int {name}_nans = 0;" if self._row_count == 1 else f"int {name}_nans[{self._row_count}] = {{}};")
        self._open_chunks(part)
        self._part(part, ("from", "to"))
        place = f"({self._outer_text()}) * {chunks} + c"
        for a in part.accumulations:
            name = a.result.name
            if self.plan.vector:
                own = f"{name}_d" if self._long(part) and self._in_double(a) else f"{name}_a"
                self.put(f"for (int64_t t = 0; t < {width}; ++t) {name}_part[({place}) * {width} + t] = {own}[t];")
            else:
                self.put(f"{name}_part[{place}] = {name}_t;")
                if self._nan(a):
                    row = "" if self._row_count == 1 else f"[{self._outer_text()}]"
                    self.put(f"if ({name}_nan) {{")
                    self.put("    #pragma omp atomic write")
                    self.put(f"    {name}_nans{row} = 1;")
                    self.put("}")
        self._close(1)
        self._fold_chunks(part, chunks, width)

    def _long(self, part: Part) -> bool:
        return part.length > BLOCK // 4

    def _outer_text(self) -> str:
        terms, stride = [], 1
        for loop in reversed(self.plan.outer):
            terms.append(loop.name if stride == 1 else f"{stride} * {loop.name}")
            stride *= loop.size
        return " + ".join(reversed(terms)) or "0"

    def _fold_chunks(self, part: Part, chunks: int, width: int) -> None:
        self._open(self.plan.outer)
        if self.plan.vector:
            self.put(f"for (int64_t t = 0; t < {width}; ++t) {{")
            self.depth += 1
        for a in part.accumulations:
            name, dtype = a.result.name, a.result.dtype
            kind = "double" if self._in_double(a) else cpp.accumulator(a.op, dtype)
            self.put(f"{kind} {name}_t = {cpp.fold(a.op, dtype).start};")
            place = f"(({self._outer_text()}) * {chunks} + c)" + (f" * {width} + t" if self.plan.vector else "")
            step = (cpp.nan_fold if self.plan.vector else lambda op, d: cpp.fold(op, d).step)(a.op, dtype)
            self.put(f"for (int64_t c = 0; c < {chunks}; ++c) {name}_t = {step.format(f'{name}_t', f'{name}_part[{place}]')};")
            if self.plan.vector:
                self.put(f"{self.ref(a.result)} = {cpp.TYPES[dtype]}({name}_t);")
            else:
                row = "" if self._row_count == 1 else f"[{self._outer_text()}]"
                self._finish_row(a, f"{name}_t", f"{name}_nans{row}")
        self._close(len(self.plan.outer) + bool(self.plan.vector))

    def _split_final(self, part: Part) -> None:
        self._open_chunks(part)
        self._part(part, ("from", "to"))
        if self.streams:
            self.put("stream_end();")
        self._close(1)
