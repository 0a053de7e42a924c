"""The text of a kernel, as far as rows and tiles have it in common: parameters, expressions, the outer loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.index import Index
from cuda_agent.policies.template.plan import Loop, Part, Plan, row_index
from cuda_agent.policies.template.statements import Accumulation, Buffer, Load, Statement, Store


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


class Renderer(ABC):
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

    # -- text

    def put(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.put(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.put("}")

    def kernel(self, body: Callable[[], None]) -> Kernel:
        """The kernel around what `body` writes."""
        written = [s.buffer for s in self.body.stores]
        loads = [a.buffer for s in self.plan.live for a in s.args if isinstance(a, Load)]
        reads = list(dict.fromkeys(b for b in loads if b.kind != "row"))
        kernel = Kernel(
            self.name, "", reads, list(dict.fromkeys(written)), self.plan.style + ("/split" if self.plan.split else "")
        )
        both = set(kernel.reads) & set(kernel.writes)
        constness = {b: "" if b in kernel.writes else "const " for b in kernel.buffers}
        parameters = [
            f"{constness[b]}{cpp.TYPES[b.dtype]}* {'' if b in both else '__restrict '}{b.name}" for b in kernel.buffers
        ]
        self.put(f"// {self.comment}")
        with self.block(f"static void {self.name}({', '.join(parameters)})"):
            body()
            if self.streams and not self.parallel:
                self.put("stream_end();")
        return Kernel(
            self.name, "\n".join(self.lines), kernel.reads, kernel.writes, kernel.style, self._in_place(kernel)
        )

    def _in_place(self, kernel: Kernel) -> list[Buffer]:
        if len(self.body.stores) > 1:
            return []
        store = self.body.stores[0]
        loads = [a for s in self.plan.live for a in s.args if isinstance(a, Load)]
        fits = [
            b
            for b in kernel.reads
            if b.kind == "call" and (b.numel, b.dtype) == (store.buffer.numel, store.buffer.dtype)
        ]
        return [b for b in fits if all(a.index == store.index for a in loads if a.buffer == b)]

    # -- expressions

    def is_array(self, s: Statement) -> bool:
        """Whether a value of a section is an array over the rows of a tile (tile) or over all rows (split)."""
        if s.region % 2:
            return False
        crosses = s.kind == "reduce" or any(r != s.region for r in s.used_in)
        if self.plan.split:
            return crosses and self.row_count > 1
        return crosses and self.is_vector(s)

    def is_vector(self, s: Statement) -> bool:
        return self.plan.vector is not None and bool(s.support & set(self.plan.vector.members))

    @property
    def row_count(self) -> int:
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
            changes[plan.vector.name] = place + Index.of("t0") if self.tiled else place
        index = index.substitute(changes)
        if self.lane[0]:
            index = index.substitute({self.lane[0]: Index.of(self.lane[0]) + self.lane[1]})
        names = {v: self.ref(self.names[v]) for v, _ in index.terms if v in self.names}
        return Index(tuple((names.get(v, v), c) for v, c in index.terms), index.const).text()

    @property
    def tiled(self) -> bool:
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
        return self.kept_index(load.index, loops)

    def kept_index(self, index: Index, loops: Sequence[Loop]) -> str:
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
            self.put(f"{s.keep_in.name}[{self.kept_index(row_index(axes, self.body.ranges), loops)}] = {self.ref(s)};")

    # -- loops

    def plain_body(self) -> None:
        plan = self.plan
        heads = [f"for (int64_t {p.name} = 0; {p.name} < {p.size}; ++{p.name})" for p in plan.outer]
        if self.together > 1:
            heads[-1] = heads[-1].replace(f"++{plan.outer[-1].name}", f"{plan.outer[-1].name} += {self.together}")
        if self.tiled:
            assert plan.vector is not None
            heads.append(f"for (int64_t t0 = 0; t0 < {plan.vector.size}; t0 += {plan.tile})")
        if heads and self.parallel:
            collapse = f" collapse({len(heads)})" if len(heads) > 1 else ""
            self.put(f"#pragma omp parallel for{collapse} schedule(static)")
        for head in heads[:-1]:
            self.put(head)
        with self.block(heads[-1] if heads else ""):
            if self.tiled:
                assert plan.vector is not None
                exact = plan.vector.size % plan.tile == 0
                self.put(
                    f"const int64_t n = {plan.tile};"
                    if exact
                    else f"const int64_t n = std::min<int64_t>({plan.tile}, {plan.vector.size} - t0);"
                )
            self._declare_arrays()
            for k, section in enumerate(plan.sections):
                self.section(section, 2 * k)
                for part in [p for p in plan.parts if p.region == 2 * k + 1]:
                    self.part(part)
            if self.streams and self.parallel:
                self.put("stream_end();")

    @property
    def count(self) -> str:
        """The number of elements of the vector loop."""
        if self.tiled:
            return "n"
        return str(self.plan.vector.size) if self.plan.vector else "1"

    def _declare_arrays(self) -> None:
        for buffer in dict.fromkeys(s.keep_in for s in self.plan.live if s.keep_in):
            assert buffer is not None
            self.put(f"alignas(64) {cpp.TYPES[buffer.dtype]} {buffer.name}[{buffer.numel * self.plan.tile}];")
        for s in self.plan.live:
            if self.is_array(s) and s.kind != "reduce":
                self.put(f"alignas(64) {cpp.TYPES[s.dtype]} {s.name}[{self.plan.tile}];")

    @abstractmethod
    def section(self, statements: list[Statement], region: int) -> None:
        """What is computed once for a row."""

    @abstractmethod
    def phase(self, part: Part, first: tuple[str, str] | None) -> None:
        """The loops of a reduction; `first` bounds the outermost one. Of a split kernel, they leave partial results."""

    @abstractmethod
    def final(self, part: Part, first: tuple[str, str] | None) -> None:
        """The loops that store."""

    def part(self, part: Part, first: tuple[str, str] | None = None) -> None:
        if part.region == self.body.final:
            self.final(part, first)
        else:
            self.phase(part, first)

    def streamed(self, store: Store, along: Loop | None) -> bool:
        if not self.plan.knobs.stream or store.buffer.numel * cpp.BYTES[store.buffer.dtype] < 1 << 20 or along is None:
            return False
        reads = {a.buffer for s in self.plan.live for a in s.args if isinstance(a, Load)}
        return store.index.coefficient(along.name) == 1 and along.size >= 64 and store.buffer not in reads

    def open(self, loops: Sequence[Loop], first: tuple[str, str] | None = None, backwards: bool = False) -> None:
        for i, loop in enumerate(loops):
            low, high = first if first and i == 0 else ("0", str(loop.size))
            head = f"int64_t {loop.name} = {low}; {loop.name} < {high}; ++{loop.name}"
            if backwards:
                head = f"int64_t {loop.name} = {high} - 1; {loop.name} >= {low}; --{loop.name}"
            self.put(f"for ({head}) {{")
            self.depth += 1

    def close(self, count: int) -> None:
        for _ in range(count):
            self.depth -= 1
            self.put("}")

    def in_double(self, a: Accumulation) -> bool:
        return a.op == "sum" and a.result.dtype == "float32"

    def has_nan(self, a: Accumulation) -> bool:
        return a.op in ("max", "min") and a.result.dtype.startswith("float")

    # scans: the running value of each row lives outside the loops along it

    @property
    def backwards(self) -> bool:
        return self.body.scan is not None and self.body.scan.reverse

    def _scan_kind(self, dtype: str) -> str:
        assert self.body.scan is not None
        wide = dtype == "float32" and self.body.scan.op in ("sum", "prod")
        return "double" if wide else cpp.TYPES[dtype]

    def declare_scan(self) -> None:
        if self.body.scan is None or self.body.scan_of is None:
            return
        result = self.body.scan_of[1]
        kind, start = self._scan_kind(result.dtype), cpp.fold(self.body.scan.op, result.dtype).start
        if self.plan.vector:
            self.fill(f"{result.name}_a", kind, start)
        else:
            self.put(f"{kind} {self.ref(result)}_a = {start};")

    def fill(self, name: str, kind: str, value: str) -> None:
        self.put(f"alignas(64) {kind} {name}[{self.plan.tile}];")
        self.put(f"for (int64_t t = 0; t < {self.count}; ++t) {name}[t] = {value};")

    def _scan_step(self, s: Statement) -> None:
        assert self.body.scan is not None and self.body.scan_of is not None
        scan, own = self.body.scan, f"{self.ref(s)}_a" + ("[t]" if self.plan.vector else "")
        step = f"{own} = {cpp.nan_fold(scan.op, s.dtype).format(own, self.ref(self.body.scan_of[0]))};"
        value = f"const {cpp.TYPES[s.dtype]} {self.ref(s)} = {cpp.TYPES[s.dtype]}({own});"
        for line in (value, step) if scan.exclusive else (step, value):
            self.put(line)

    @property
    def together(self) -> int:
        """How many rows are worked on side by side."""
        return 1

    def outer_text(self) -> str:
        terms, stride = [], 1
        for loop in reversed(self.plan.outer):
            terms.append(loop.name if stride == 1 else f"{stride} * {loop.name}")
            stride *= loop.size
        return " + ".join(reversed(terms)) or "0"

    def finish_row(self, a: Accumulation, total: str, nan: str) -> None:
        kind = cpp.TYPES[a.result.dtype]
        value = f"{kind}({total})"
        if self.has_nan(a):
            value = f"{nan} ? {kind}(NAN) : {total}"
        if self.plan.split and self.is_array(a.result):
            self.put(f"{self.ref(a.result)} = {value};")
        else:
            self.put(f"const {kind} {a.result.name} = {value};")
