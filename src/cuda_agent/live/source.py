"""The files of a task from an exported module."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from cuda_agent.errors import TaskError
from cuda_agent.live.exact import stored
from cuda_agent.live.example_call import ExampleCall, Leaf, input_lines
from cuda_agent.live.forward import Arguments, Expression, ForwardWriter, structure
from cuda_agent.live.state import state_of
from cuda_agent.live.text import literal

CONSTANTS = "task_constants"


def files_of(
    module: nn.Module,
    program: ExportedProgram,
    call: ExampleCall,
    numbers: Mapping[str, Arguments],
    name: str,
    *,
    plain: bool,
) -> dict[str, str]:
    """`model.py` and, for irregular constants, `task_constants.py`. Raises TaskError."""
    constants = {name: program.constants[name] for name in _used_constants(program)}
    state = state_of(module, constants)
    body = _forward(program, call, numbers, state.places, plain)
    imports = ["import torch", "from torch import nn"]
    imports += ["from torch.nn import functional as F"] if any("F." in line for line in body) else []
    imports += ["", f"from {CONSTANTS} import stored"] if state.stored else []
    lines = [f'"""{name}, made from a live module in evaluation mode: {_sizes(call)}."""', "", *imports, "", ""]
    lines += [f"class Model({state.base}):", *_function("__init__(self)", ["super().__init__()", *state.lines]), ""]
    lines += [*_function(f"forward(self, {', '.join(call.names)})", body), "", ""]
    lines += ["def get_inputs():", *_indented(input_lines(call)), "", "", "def get_init_inputs():", "    return []", ""]
    files = {"model.py": "\n".join(lines)}
    return files | ({f"{CONSTANTS}.py": stored(state.stored)} if state.stored else {})


def _forward(
    program: ExportedProgram,
    call: ExampleCall,
    numbers: Mapping[str, Arguments],
    state: Mapping[str, str],
    plain: bool,
) -> list[str]:
    nodes = list(program.graph.nodes)
    leaves = call.leaves()
    places = _places(program, state, [leaf.place for leaf in leaves])
    tensors = [leaf.place for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    device = f"{tensors[0]}.device" if tensors else '"cpu"'
    writer = ForwardWriter(
        nodes,
        places,
        device=device,
        like=_precision(program, leaves, state),
        taken=set(call.names),
        substituted=numbers,
        plain=plain,
    )
    fixed = [leaf for leaf in leaves if not isinstance(leaf.value, torch.Tensor) and not _is_used(leaf.place, numbers)]
    note = [f"# for {', '.join(f'{leaf.place} = {literal(leaf.value)}' for leaf in fixed)}"] if fixed else []
    return [*note, *writer.lines, f"return {_returned(program, nodes[-1], numbers, writer)}"]


def _precision(
    program: ExportedProgram, leaves: list[Leaf], state: Mapping[str, str]
) -> tuple[torch.dtype, str] | None:
    """The dtype of the first floating input, else of the first parameter, and how forward reaches it."""
    inputs = [(leaf.value, leaf.place) for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    weights = [(tensor, state[name]) for name, tensor in program.state_dict.items() if name in state]
    found = [(tensor.dtype, f"{place}.dtype") for tensor, place in [*inputs, *weights] if tensor.is_floating_point()]
    return found[0] if found else None


def _is_used(place: str, numbers: Mapping[str, Arguments]) -> bool:
    return f"Expression(text={place!r})" in repr(list(numbers.values()))


def _returned(program: ExportedProgram, output: Node, numbers: Mapping[str, Arguments], writer: ForwardWriter) -> str:
    args, _ = numbers.get(output.name, (output.args, {}))
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    values = [value for value, kind in zip(args[0], kinds, strict=True) if kind == "USER_OUTPUT"]
    if any(isinstance(value, str) for value in values):
        raise TaskError("forward returns a str; wrap the module so that it returns tensors or numbers only")
    spec = program.call_spec.out_spec
    assert spec is not None
    return structure(pytree.tree_unflatten([Expression(writer.text(value)) for value in values], spec), writer.text)


def _places(program: ExportedProgram, state: Mapping[str, str], inputs: list[str]) -> dict[str, str]:
    """How the source reaches each placeholder of the graph."""
    waiting = iter(inputs)
    places: dict[str, str] = {}
    for spec in program.graph_signature.input_specs:
        match spec.kind.name:
            case "USER_INPUT":
                places[spec.arg.name] = next(waiting)
            case "PARAMETER" | "BUFFER" | "CONSTANT_TENSOR":
                places[spec.arg.name] = state.get(str(spec.target), "None")
            case other:
                raise TaskError(
                    f"it needs a {other.lower().replace('_', ' ')} ({spec.target}), which no source can make"
                )
    return places


def _used_constants(program: ExportedProgram) -> list[str]:
    used = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind.name == "CONSTANT_TENSOR"]
    return [str(spec.target) for spec in specs if spec.arg.name in used]


def _sizes(call: ExampleCall) -> str:
    tensors = [leaf.value for leaf in call.leaves() if isinstance(leaf.value, torch.Tensor)]
    return ", ".join("x".join(str(size) for size in tensor.shape) or "a scalar" for tensor in tensors[:4])


def _function(head: str, body: list[str]) -> list[str]:
    return [f"    def {head}:", *(textwrap.indent(line, " " * 8) for line in body)]


def _indented(lines: list[str]) -> list[str]:
    return [textwrap.indent(line, "    ") for line in lines]
