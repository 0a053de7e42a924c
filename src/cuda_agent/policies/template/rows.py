"""Kernels whose vector runs along the row."""

from __future__ import annotations

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.index import Index
from cuda_agent.policies.template.plan import BLOCK, Loop, Part
from cuda_agent.policies.template.render import Renderer
from cuda_agent.policies.template.statements import Accumulation, Statement

LINE = 1024
"""Elements that are collected before they are streamed out."""


class RowRenderer(Renderer):
    """Values of a row are scalars; a reduction ends in one horizontal step."""

    def section(self, statements: list[Statement], region: int) -> None:
        for s in statements:
            self.let(s, ())
        for store in [s for s in self.body.stores if s.region == region]:
            self.put(f"{store.buffer.name}[{self.index(store.index, ())}] = {self.ref(store.value)};")

    def _row_scan(self, part: Part) -> None:
        together = self.together
        lanes = [
            (self.plan.outer[-1].name, n, f"_{n}" if n else "") if together > 1 else ("", 0, "")
            for n in range(together)
        ]
        self.in_lane = set(part.statements)
        for self.lane in lanes:
            self.declare_scan()
        self.open(part.loops, None, self.backwards)
        for self.lane in lanes:
            for s in part.statements:
                self.let(s, part.loops)
            for store in part.stores:
                self.put(f"{store.buffer.name}[{self.index(store.index, part.loops)}] = {self.ref(store.value)};")
        self.close(len(part.loops))
        self.lane, self.in_lane = ("", 0, ""), set()

    def phase(self, part: Part, first: tuple[str, str] | None) -> None:
        outer, inner = part.loops[:-1], part.loops[-1]
        accs = part.accumulations
        blocked = inner.size > BLOCK and any(self.in_double(a) for a in accs)
        nested = bool(outer) or blocked or first is not None
        for a in accs:
            kind = "double" if nested and self.in_double(a) else cpp.accumulator(a.op, a.result.dtype)
            self.put(f"{kind} {a.result.name}_t = {cpp.fold(a.op, a.result.dtype).start};")
            if self.has_nan(a):
                self.put(f"int {a.result.name}_nan = 0;")
        bounds = ("0", str(inner.size))
        if first and not outer:
            bounds, first = first, None
        self.open(outer, first)
        if blocked:
            name = inner.name
            self.put(f"for (int64_t {name}_0 = {bounds[0]}; {name}_0 < {bounds[1]}; {name}_0 += {BLOCK}) {{")
            self.depth += 1
            self.put(f"const int64_t {name}_1 = std::min<int64_t>({name}_0 + {BLOCK}, {bounds[1]});")
            bounds = (f"{name}_0", f"{name}_1")
        self._row_inner(part, bounds, nested)
        self.close(len(outer) + blocked)
        if not self.plan.split:
            for a in accs:
                self.finish_row(a, f"{a.result.name}_t", f"{a.result.name}_nan")

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
            if self.has_nan(a):
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
                    if self.has_nan(a):
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

    def final(self, part: Part, first: tuple[str, str] | None) -> None:
        if self.body.scan is not None:
            self._row_scan(part)
            return
        outer, inner = part.loops[:-1], part.loops[-1]
        bounds = ("0", str(inner.size))
        if first and not outer:
            bounds, first = first, None
        self.open(outer, first)
        for s in part.statements:
            if not self._varies(s, inner):
                self.let(s, part.loops)
        lines = [s for s in part.stores if self.streamed(s, inner)]
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
                target = (
                    f"line_{store.buffer.name}[{inner.name} - {bounds[0]}]"
                    if store in lines
                    else f"{store.buffer.name}[{self.index(store.index, part.loops)}]"
                )
                self.put(f"{target} = {self.ref(store.value)};")
        for store in lines:
            self.streams = True
            start = store.index.substitute({inner.name: Index.of(bounds[0])})
            self.put(
                f"stream(&{store.buffer.name}[{self.index(start, part.loops)}], line_{store.buffer.name}, "
                f"{bounds[1]} - {bounds[0]});"
            )
        self.close(len(outer) + depth)
