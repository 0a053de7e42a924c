"""Kernels with too few rows for the cores: each row is cut into chunks, and their partial results are folded."""

from __future__ import annotations

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.plan import BLOCK, Part
from cuda_agent.policies.template.render import Renderer
from cuda_agent.policies.template.statements import Statement

CHUNKS = 16


class Split:
    """Writes the body of a kernel through the renderer of its style."""

    def __init__(self, renderer: Renderer) -> None:
        self.r, self.plan, self.body = renderer, renderer.plan, renderer.body

    def write(self) -> None:
        rows = self.r.row_count
        for s in self.plan.live:
            if self.r.is_array(s):
                self.r.put(f"alignas(64) static thread_local {cpp.TYPES[s.dtype]} {s.name}_rows[{rows}];")
                self.r.put(f"{cpp.TYPES[s.dtype]}* const {s.name} = {s.name}_rows;")
        for k, section in enumerate(self.plan.sections):
            self._section(section, 2 * k)
            for part in [p for p in self.plan.parts if p.region == 2 * k + 1]:
                if part.region == self.body.final:
                    self._final(part)
                else:
                    self._phase(part)

    def _section(self, statements: list[Statement], region: int) -> None:
        lets = [s for s in statements if s.kind == "let"]
        stores = [s for s in self.body.stores if s.region == region]
        if not lets and not stores:
            return
        if self.r.row_count == 1:
            for s in lets:
                self.r.let(s, ())
            for store in stores:
                self.r.put(f"{store.buffer.name}[{self.r.index(store.index, ())}] = {self.r.ref(store.value)};")
            return
        self.r.open(self.plan.outer)
        if self.plan.vector:
            self.r.put(f"for (int64_t t = 0; t < {self.plan.vector.size}; ++t) {{")
            self.r.depth += 1
        for s in lets:
            self.r.let(s, ())
        for store in stores:
            self.r.put(f"{store.buffer.name}[{self.r.index(store.index, ())}] = {self.r.ref(store.value)};")
        self.r.close(len(self.plan.outer) + bool(self.plan.vector))

    def _chunks(self, part: Part) -> int:
        return min(CHUNKS, part.loops[0].size)

    def _open_chunks(self, part: Part) -> None:
        chunks, size = self._chunks(part), part.loops[0].size
        collapse = f" collapse({len(self.plan.outer) + 1})" if self.plan.outer else ""
        self.r.put(f"#pragma omp parallel for{collapse} schedule(static)")
        for loop in self.plan.outer:
            self.r.put(f"for (int64_t {loop.name} = 0; {loop.name} < {loop.size}; ++{loop.name})")
        self.r.put(f"for (int64_t c = 0; c < {chunks}; ++c) {{")
        self.r.depth += 1
        self.r.put(f"const int64_t from = {size} * c / {chunks}, to = {size} * (c + 1) / {chunks};")

    def _phase(self, part: Part) -> None:
        chunks, width = self._chunks(part), self.plan.tile
        for a in part.accumulations:
            kind = "double" if self.r.in_double(a) else cpp.accumulator(a.op, a.result.dtype)
            name = a.result.name
            self.r.put(f"static thread_local {kind} {name}_all[{self.r.row_count * chunks}];")
            self.r.put(f"{kind}* const {name}_part = {name}_all;")
            if self.r.has_nan(a) and not self.plan.vector:
                self.r.put(
                    f"int {name}_nans = 0;" if self.r.row_count == 1 else f"int {name}_nans[{self.r.row_count}] = {{}};"
                )
        self._open_chunks(part)
        self.r.part(part, ("from", "to"))
        place = f"({self.r.outer_text()}) * {chunks} + c"
        for a in part.accumulations:
            name = a.result.name
            if self.plan.vector:
                own = f"{name}_d" if self._long(part) and self.r.in_double(a) else f"{name}_a"
                self.r.put(f"for (int64_t t = 0; t < {width}; ++t) {name}_part[({place}) * {width} + t] = {own}[t];")
            else:
                self.r.put(f"{name}_part[{place}] = {name}_t;")
                if self.r.has_nan(a):
                    row = "" if self.r.row_count == 1 else f"[{self.r.outer_text()}]"
                    self.r.put(f"if ({name}_nan) {{")
                    self.r.put("    #pragma omp atomic write")
                    self.r.put(f"    {name}_nans{row} = 1;")
                    self.r.put("}")
        self.r.close(1)
        self._fold_chunks(part, chunks, width)

    def _long(self, part: Part) -> bool:
        return part.length > BLOCK // 4

    def _fold_chunks(self, part: Part, chunks: int, width: int) -> None:
        self.r.open(self.plan.outer)
        if self.plan.vector:
            self.r.put(f"for (int64_t t = 0; t < {width}; ++t) {{")
            self.r.depth += 1
        for a in part.accumulations:
            name, dtype = a.result.name, a.result.dtype
            kind = "double" if self.r.in_double(a) else cpp.accumulator(a.op, dtype)
            self.r.put(f"{kind} {name}_t = {cpp.fold(a.op, dtype).start};")
            place = f"(({self.r.outer_text()}) * {chunks} + c)" + (f" * {width} + t" if self.plan.vector else "")
            step = cpp.nan_fold(a.op, dtype) if self.plan.vector else cpp.fold(a.op, dtype).step
            step = step.format(f"{name}_t", f"{name}_part[{place}]")
            self.r.put(f"for (int64_t c = 0; c < {chunks}; ++c) {name}_t = {step};")
            if self.plan.vector:
                self.r.put(f"{self.r.ref(a.result)} = {cpp.TYPES[dtype]}({name}_t);")
            else:
                row = "" if self.r.row_count == 1 else f"[{self.r.outer_text()}]"
                self.r.finish_row(a, f"{name}_t", f"{name}_nans{row}")
        self.r.close(len(self.plan.outer) + bool(self.plan.vector))

    def _final(self, part: Part) -> None:
        self._open_chunks(part)
        self.r.part(part, ("from", "to"))
        if self.r.streams:
            self.r.put("stream_end();")
        self.r.close(1)
