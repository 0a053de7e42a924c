"""Kernels whose vector runs over neighbouring rows, or over the elements of what has no reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.index import Index
from cuda_agent.policies.template.plan import BLOCK, Loop, Part
from cuda_agent.policies.template.render import Renderer
from cuda_agent.policies.template.statements import Accumulation, Statement, Store


class TileRenderer(Renderer):
    """Every element of the tile has an accumulator of its own."""

    def section(self, statements: list[Statement], region: int) -> None:
        stores = [s for s in self.body.stores if s.region == region]
        for s in statements:
            if not self.is_vector(s):
                self.let(s, ())
        vector = [s for s in statements if self.is_vector(s) and s.kind == "let"]
        if self.plan.vector is None:
            for store in stores:
                self.put(f"{store.buffer.name}[{self.index(store.index, ())}] = {self.ref(store.value)};")
        elif vector or stores:
            self.vector_loop(vector, stores, ())

    def vector_loop(
        self,
        statements: list[Statement],
        stores: list[Store],
        loops: Sequence[Loop],
        bounds: tuple[str, str] | None = None,
        steps: Callable[[], None] | None = None,
    ) -> None:
        """One loop over the tile."""
        low, high = bounds or ("0", self.count)
        lines = [s for s in stores if self.streamed(s, self.plan.vector)]
        for store in lines:
            self.put(f"alignas(64) {cpp.TYPES[store.buffer.dtype]} line_{store.buffer.name}[{self.plan.tile}];")
        self.put("#pragma omp simd")
        with self.block(f"for (int64_t t = {low}; t < {high}; ++t)"):
            for s in statements:
                self.let(s, loops)
            if steps:
                steps()
            for store in stores:
                target = (
                    f"line_{store.buffer.name}[t]"
                    if store in lines
                    else f"{store.buffer.name}[{self.index(store.index, loops)}]"
                )
                self.put(f"{target} = {self.ref(store.value)};")
        for store in lines:
            self.streams = True
            self.put(
                f"stream(&{store.buffer.name}[{self.index(store.index, loops, base='')}], line_{store.buffer.name}, "
                f"{self.count});"
            )

    def phase(self, part: Part, first: tuple[str, str] | None) -> None:
        outer = part.loops
        inner_count = math.prod(loop.size for loop in outer[1:])
        long_sum = part.length > BLOCK // 4 and any(self.in_double(a) for a in part.accumulations)
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
                    if self.in_double(a):
                        self.fill(f"{a.result.name}_b", "float", "0")
                self._tile_accumulate(part, outer, (f"{name}_0", f"{name}_1"), "_b")
                for a in part.accumulations:
                    if self.in_double(a):
                        self.put(
                            f"for (int64_t t = 0; t < {self.count}; ++t) {a.result.name}_d[t] += {a.result.name}_b[t];"
                        )
        for a in part.accumulations:
            if long_sum and self.in_double(a) and not self.plan.split:
                self.put(
                    f"for (int64_t t = 0; t < {self.count}; ++t) {a.result.name}[t] = float({a.result.name}_d[t]);"
                )

    def _declare_tile(self, a: Accumulation, long_sum: bool) -> None:
        name, kind = a.result.name, cpp.accumulator(a.op, a.result.dtype)
        own = f"{name}_a" if self.plan.split else name
        if long_sum and self.in_double(a):
            self.fill(f"{name}_d", "double", "0")
            if not self.plan.split:
                self.put(f"alignas(64) float {own}[{self.plan.tile}];")
            return
        self.fill(own, kind, cpp.fold(a.op, a.result.dtype).start)

    def _tile_accumulate(self, part: Part, loops: Sequence[Loop], first: tuple[str, str] | None, suffix: str) -> None:
        self.open(loops, first)
        guards = part.accumulations[0].guards
        assert self.plan.vector is not None
        vector_guards = [g for g in guards if g[0].coefficient(self.plan.vector.name)]
        for index, size in guards:
            if (index, size) not in vector_guards:
                text = self.index(index, loops)
                self.put(f"if (({text}) < 0 || ({text}) >= {size}) continue;")
        scalars = [s for s in part.statements if not self.is_vector(s)]
        for s in scalars:
            self.let(s, loops)
        bounds = self._vector_bounds(vector_guards, loops)

        def steps() -> None:
            for a in part.accumulations:
                own = a.result.name + ("_b" if suffix and self.in_double(a) else "_a" if self.plan.split else "")
                step = cpp.nan_fold(a.op, a.result.dtype).format(f"{own}[t]", self.ref(a.value))
                self.put(f"{own}[t] = {step};")

        self.vector_loop([s for s in part.statements if self.is_vector(s)], [], loops, bounds, steps)
        self.close(len(loops))

    def _vector_bounds(self, guards: list[tuple[Index, int]], loops: Sequence[Loop]) -> tuple[str, str] | None:
        if not guards:
            return None
        lows, highs = ["0"], [f"int64_t({self.count})"]
        assert self.plan.vector is not None
        for index, size in guards:
            stride = index.coefficient(self.plan.vector.name)
            rest = self.index(index, loops, base="")
            lows.append(f"ceil_divide(-({rest}), {stride})")
            highs.append(f"floor_divide<int64_t>({size - 1} - ({rest}), {stride}) + 1")
        self.put(f"const int64_t low = std::max<int64_t>({{{', '.join(lows)}}});")
        self.put(f"const int64_t high = std::min<int64_t>({{{', '.join(highs)}}});")
        return "low", "high"

    def final(self, part: Part, first: tuple[str, str] | None) -> None:
        self.declare_scan()
        self.open(part.loops, first, self.backwards)
        for s in part.statements:
            if not self.is_vector(s):
                self.let(s, part.loops)
        self.vector_loop([s for s in part.statements if self.is_vector(s)], part.stores, part.loops)
        self.close(len(part.loops))
