"""Writes the files of a solution: `model_new.py` and the kernels' one C++ file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.graph import Graph, State, safe_name
from cuda_agent.policies.template.ir import Input, Node, walk
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.lower import Lowering, Program, decode
from cuda_agent.policies.template.schedule import CallStep, KernelStep, Schedule, Scheduler, python_view
from cuda_agent.policies.template.statements import Buffer

ALLOWED_CALLS = ("mm", "addmm", "bmm", "baddbmm", "linear", "convolution")
HEADER = Path(__file__).with_name("fast_math.h")


@dataclass(frozen=True)
class Written:
    """A solution and what there is to say about it."""

    files: dict[str, str]
    fallbacks: dict[str, str]
    """Operators left to torch, and why."""
    folded: list[str]
    library: list[str]
    """Operators of torch that are called."""
    kernels: list[str]
    """One line about each kernel."""
    streamable: bool
    tiled: bool


@dataclass
class Stage:
    """Kernels that run one after the other without Python between them."""

    steps: list[KernelStep]

    @property
    def name(self) -> str:
        return self.steps[0].kernel.name if len(self.steps) == 1 else "stage_" + self.steps[0].kernel.name


def write_solution(graph: Graph, knobs: Knobs) -> Written:
    """The solution for a graph. Raises NoRule or NoCode where not even a call of torch can be written."""
    program = Lowering(graph, fold=knobs.fold).run()
    schedule = Scheduler(program, knobs).run()
    return _Writer(graph, program, schedule, knobs).write()


class _Writer:
    def __init__(self, graph: Graph, program: Program, schedule: Schedule, knobs: Knobs) -> None:
        self.graph, self.program, self.schedule, self.knobs = graph, program, schedule, knobs
        self.stages = list(self._grouped())
        self.outside = set(re.findall(r"<(\w+)>", repr((schedule.outputs, schedule.effects))))
        self.aliases = self._aliases()

    def write(self) -> Written:
        files = {"model_new.py": self._python()}
        kernels = [s.kernel for s in self.schedule.steps if isinstance(s, KernelStep)]
        if kernels:
            files["kernels/kernels.cpp"] = self._cpp()
            files["kernels/fast_math.h"] = HEADER.read_text(encoding="utf-8")
        lines = [f"{k.name} ({k.style}): {k.text.splitlines()[0][3:]}" for k in kernels]
        large = any(b.numel * cpp.BYTES[b.dtype] >= 1 << 20 for k in kernels for b in k.writes)
        tiled = any(k.style.startswith("tile") for k in kernels)
        library = list(dict.fromkeys(s.target for s in self.schedule.steps if isinstance(s, CallStep)))
        return Written(files, self.program.fallbacks, self.program.folded, library, lines, large, tiled)

    # -- order

    def _grouped(self) -> Iterator[Stage | CallStep]:
        stage: list[KernelStep] = []
        for step in self.schedule.steps:
            if isinstance(step, KernelStep):
                stage.append(step)
                if self.knobs.fuse:
                    continue
            if stage:
                yield Stage(stage)
                stage = []
            if isinstance(step, CallStep):
                yield step
        if stage:
            yield Stage(stage)

    def _aliases(self) -> dict[str, str]:
        """Results that take the memory of a library call's result, which nobody reads afterwards."""
        steps = self.schedule.steps
        last: dict[str, int] = {}
        for i, step in enumerate(steps):
            for buffer in step.reads if isinstance(step, CallStep) else step.kernel.reads:
                last[buffer.name] = i
        fresh = {s.result.name for s in steps if isinstance(s, CallStep) and s.target in ALLOWED_CALLS}
        taken: dict[str, str] = {}
        for i, step in enumerate(steps):
            if isinstance(step, CallStep) or not step.alone or not self.knobs.fuse:
                continue
            for buffer in step.kernel.in_place:
                if (
                    buffer.name in fresh
                    and last[buffer.name] == i
                    and buffer.name not in self.outside | set(taken.values())
                ):
                    taken[step.results[0].name] = buffer.name
                    break
        return taken

    def _inner(self, stage: Stage) -> list[Buffer]:
        """Temporaries that only this stage reads and writes."""
        if len(stage.steps) == 1:
            return []
        own = [r for s in stage.steps for r in s.results]
        elsewhere = set(self.outside)
        for other in self.stages:
            if other is not stage:
                steps = other.steps if isinstance(other, Stage) else [other]
                for s in steps:
                    elsewhere |= {b.name for b in (s.kernel.buffers if isinstance(s, KernelStep) else s.reads)}
        return [b for b in dict.fromkeys(own) if b.name not in elsewhere and b.name not in self.aliases]

    def _parameters(self, stage: Stage) -> list[tuple[Buffer, bool]]:
        """What a stage takes: (buffer, whether it is written)."""
        inner = set(self._inner(stage))
        written = {b for s in stage.steps for b in s.kernel.writes}
        buffers = dict.fromkeys(b for s in stage.steps for b in s.kernel.buffers)
        return [(b, b in written) for b in buffers if b not in inner]

    # -- C++

    def _cpp(self) -> str:
        parts = [
            "// Written by cuda-agent's template policy; knobs: " + self.knobs.describe() + ".",
            "// Neither errno nor floating-point traps are used: without them conditionals become vector code.",
            '#pragma GCC optimize("no-math-errno,no-trapping-math")',
            '#include "fast_math.h"',
            "#include <cstdlib>\n",
        ]
        stages = [s for s in self.stages if isinstance(s, Stage)]
        if any(self._inner(s) for s in stages):
            parts.append(_ARENA)
        for stage in stages:
            for step in stage.steps:
                text = step.kernel.text
                alias = self.aliases.get(step.results[0].name)
                if alias:
                    text = re.sub(rf"__restrict ({alias}|{step.results[0].name})\b", r"\1", text)
                parts.append(
                    text.replace("static void", 'extern "C" void', 1) + "\n" if len(stage.steps) == 1 else text + "\n"
                )
            if len(stage.steps) > 1:
                parts.append(self._stage(stage))
        return "\n".join(parts)

    def _stage(self, stage: Stage) -> str:
        parameters = ", ".join(
            f"{'' if w else 'const '}{cpp.TYPES[b.dtype]}* {b.name}" for b, w in self._parameters(stage)
        )
        lines = [f'extern "C" void {stage.name}({parameters}) {{']
        offset = 0
        for buffer in self._inner(stage):
            kind = cpp.TYPES[buffer.dtype]
            lines.append(f"    {kind}* const {buffer.name} = reinterpret_cast<{kind}*>(arena(TOTAL) + {offset});")
            offset += -(-buffer.numel * cpp.BYTES[buffer.dtype] // 64) * 64
        lines += [f"    {s.kernel.name}({', '.join(b.name for b in s.kernel.buffers)});" for s in stage.steps]
        return "\n".join(lines).replace("TOTAL", str(offset)) + "\n}\n"

    # -- Python

    def _python(self) -> str:
        has_kernels = any(isinstance(s, Stage) for s in self.stages)
        parts = ['"""Written by cuda-agent\'s template policy."""\n']
        for op, why in self.program.fallbacks.items():
            parts.append(f"# Left to torch: {op} ({why})")
        constants = [c for c in self.graph.constants if safe_name(c.name) in self._forward_reads | self._prepare_reads]
        imports = ["import base64", "import zlib", ""] if constants else []
        parts += [*imports, "import torch"]
        if has_kernels:
            parts += [
                "",
                "from cuda_agent.runtime import load_kernels",
                "",
                '_kernels = load_kernels("kernels/kernels.cpp")',
            ]
        parts.append("\n")
        if self._state:
            parts.append(_REGISTER)
        for constant in constants:
            parts.append(
                f"{self._constant_name(constant.name)} = torch.frombuffer(bytearray(zlib.decompress(base64.b85decode("
                f'"{constant.data}"))),\n    dtype=torch.{constant.dtype}).reshape({constant.shape})\n'
            )
        parts.append("class ModelNew(torch.nn.Module):")
        parts.append(textwrap.indent("\n".join([*self._init(), *self._prepare(), *self._forward()]), "    "))
        return "\n".join(parts) + "\n"

    @property
    def _state(self) -> list[State]:
        return [*self.graph.state, *self.graph.unused_state]

    @cached_property
    def _forward_reads(self) -> set[str]:
        """Names of tensors that `forward` reads."""
        steps = self.schedule.steps
        text = repr([s.code for s in steps if isinstance(s, CallStep)]) + repr(
            (self.schedule.outputs, self.schedule.effects)
        )
        kernels = {b.name for s in steps if isinstance(s, KernelStep) for b in s.kernel.reads}
        return kernels | set(re.findall(r"<(\w+)>", text))

    @cached_property
    def _prepare_reads(self) -> set[str]:
        """Names of tensors from which `prepare` makes others."""
        return {n.name for d in self.program.derived for n in walk(list(d.args)) if isinstance(n, Input)}

    def _constant_name(self, name: str) -> str:
        return "_" + name.strip("_").upper()

    def _init(self) -> Iterator[str]:
        yield "def __init__(self, *args, **kwargs):"
        yield "    super().__init__()"
        for s in self._state:
            zeros = f"torch.zeros({s.shape}, dtype=torch.{s.dtype})"
            yield f'    _register(self, "{s.target}", {zeros}, {s.kind == "parameter"})'
        yield "    self._tensors = None"
        yield ""

    @cached_property
    def _bound(self) -> list[str]:
        """Names of state, constants and derived tensors that `forward` uses."""
        names = [safe_name(s.name) for s in self.graph.state] + [safe_name(c.name) for c in self.graph.constants]
        return [n for n in [*names, *(d.node.name for d in self.program.derived)] if n in self._forward_reads]

    def _prepare(self) -> Iterator[str]:
        yield "@torch.no_grad()"
        yield "def prepare(self):"
        yield '    """What depends on the weights alone; to be called again when they change."""'
        if self.program.derived or self._bound:
            yield "    state = dict(self.named_parameters(remove_duplicate=False))"
            yield "    state.update(self.named_buffers(remove_duplicate=False))"
        needed = self._prepare_reads | set(self._bound)
        for s in self.graph.state:
            if safe_name(s.name) in needed:
                yield f'    {safe_name(s.name)} = state["{s.target}"].detach()'
        for c in self.graph.constants:
            if safe_name(c.name) in needed:
                yield f"    {safe_name(c.name)} = {self._constant_name(c.name)}"
        for d in self.program.derived:
            yield f"    {d.node.name} = ({d.template.format(*(self._leaf_text(a) for a in d.args))}).contiguous()"
        yield f"    self._tensors = ({''.join(n + ', ' for n in self._bound)})"
        yield ""

    def _leaf_text(self, node: Node) -> str:
        """Python for what `prepare` reads: a leaf, or a view of one."""
        if isinstance(node, Input):
            return node.name
        return python_view(node, self._leaf_text)

    def _forward(self) -> Iterator[str]:
        names = [safe_name(i.name) for i in self.graph.inputs]
        yield f"def forward({', '.join(['self', *names])}):"
        yield "    if self._tensors is None:"
        yield "        self.prepare()"
        if self._bound:
            yield f"    ({''.join(n + ', ' for n in self._bound)}) = self._tensors"
        for i in self.graph.inputs:
            name = safe_name(i.name)
            if i.shape is None:
                value = decode(i.value)
                yield f"    if {name} != {value!r}:"
                yield f'        raise ValueError(f"these kernels were written for {name} = {value!r}, not {{{name}}}")'
            elif name in self._forward_reads:
                yield f"    if {name}.shape != {tuple(i.shape)}:"
                told = f"these kernels were written for {name} of shape {tuple(i.shape)}, not {{tuple({name}.shape)}}"
                yield f'        raise ValueError(f"{told}")'
            if i.shape and name in self._forward_reads:
                yield f"    if not {name}.is_contiguous():"
                yield f"        {name} = {name}.contiguous()"
        made: set[str] = set()
        several: dict[str, str] = {}
        for step in self.stages:
            if isinstance(step, CallStep):
                yield from self._call_line(step, several)
            else:
                yield from self._stage_lines(step, made)
        for name, code in self.schedule.effects:
            yield f'    self.get_buffer("{name}").copy_({self._expression(code)})'
        yield f"    return {self._result(self.schedule.outputs)}"

    def _call_line(self, step: CallStep, several: dict[str, str]) -> Iterator[str]:
        code = self._expression(step.code)
        if step.item is not None:
            if code not in several:
                several[code] = f"all_{len(several)}"
                yield f"    {several[code]} = {code}"
            code = f"{several[code]}[{step.item}]"
        yield f"    {step.result.name} = {code}"
        if step.fallback or step.target == "convolution":
            yield f"    if not {step.result.name}.is_contiguous():"
            yield f"        {step.result.name} = {step.result.name}.contiguous()"

    def _stage_lines(self, stage: Stage, made: set[str]) -> Iterator[str]:
        inner = set(self._inner(stage))
        for result in [r for s in stage.steps for r in s.results]:
            if result in inner or result.name in made:
                continue
            made.add(result.name)
            shape = self.schedule.shapes[result]
            alias = self.aliases.get(result.name)
            if alias is None:
                yield f"    {result.name} = torch.empty({self._shape(shape)}, dtype=torch.{result.dtype})"
            else:
                buffer = next(b for b in self.schedule.shapes if b.name == alias)
                same = self.schedule.shapes[buffer] == shape
                yield f"    {result.name} = {alias}" + ("" if same else f".view({self._shape(shape)})")
        yield f"    _kernels.{stage.name}({', '.join(b.name for b, _ in self._parameters(stage))})"

    def _shape(self, shape: tuple[int, ...]) -> str:
        return "(" + "".join(f"{s}, " for s in shape).rstrip(" ") + ")" if len(shape) == 1 else str(tuple(shape))

    def _expression(self, code: str) -> str:
        return re.sub(r"<(\w+)>", r"\1", code)

    def _result(self, value: Any) -> str:
        kind = next(iter(value))
        if kind == "code":
            return self._expression(value["code"])
        if kind == "dict":
            return "{" + ", ".join(f"{k!r}: {self._result(v)}" for k, v in value["dict"]) + "}"
        items = [self._result(v) for v in value[kind]]
        if kind == "list":
            return "[" + ", ".join(items) + "]"
        return "(" + "".join(i + ", " for i in items) + ")"


_REGISTER = '''
def _register(module, name, value, parameter):
    """Adds a parameter or buffer under its name in the state dict, with the modules on the way."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, torch.nn.Module())
        module = module._modules[part]
    if parameter:
        module.register_parameter(leaf, torch.nn.Parameter(value, requires_grad=False))
    else:
        module.register_buffer(leaf, value)

'''

_ARENA = """// Memory for what one kernel hands to the next.
static char* arena(size_t bytes) {
    static thread_local char* memory = nullptr;
    static thread_local size_t size = 0;
    if (size < bytes) {
        std::free(memory);
        size = (bytes + 63) / 64 * 64;
        memory = static_cast<char*>(std::aligned_alloc(64, size));
    }
    return memory;
}
"""
