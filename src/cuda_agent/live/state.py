"""The constructor of the generated module: the live module's parameters and buffers under their own names.

Parameters and the statistics of normalisations are drawn with the live ones' mean and deviation. Other buffers (masks,
positions) keep their values; so do tensors that the state dict does not hold. Tensors with two names stay tied.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from cuda_agent.errors import TaskError
from cuda_agent.live.exact import exact, storable
from cuda_agent.live.examples import like_weights
from cuda_agent.live.text import shape

_STATISTICS = ("running_mean", "running_var")


@dataclass
class State:
    """Statements of `__init__`, how `forward` reaches each tensor, and what `task_constants.py` has to hold."""

    base: str
    """`Model` itself is an `nn.ModuleDict` where its children's names are numbers."""
    lines: list[str]
    places: dict[str, str] = field(default_factory=dict)
    stored: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Entry:
    name: str
    tensor: torch.Tensor
    kind: str
    """parameter, buffer or constant; the last two differ in that a constant is not in the state dict."""


def state_of(module: nn.Module, constants: Mapping[str, torch.Tensor]) -> State:
    """`constants` are tensors that the graph uses and the module holds neither as parameters nor as buffers."""
    entries = list(_entries(module, constants))
    tree = _Tree([entry.name for entry in entries])
    state = State(tree.base, tree.lines)
    first: dict[int, str] = {}
    for entry in entries:
        state.places[entry.name] = _leaf_place(entry.name)
        if (known := first.get(id(entry.tensor))) is not None:
            state.lines.append(_statement(entry, known))  # tied
            continue
        first[id(entry.tensor)] = state.places[entry.name]
        state.lines.append(_made(entry, state))
    return state


def _entries(module: nn.Module, constants: Mapping[str, torch.Tensor]) -> Iterator[_Entry]:
    saved = set(module.state_dict())
    for name, parameter in module.named_parameters(remove_duplicate=False):
        yield _Entry(name, parameter, "parameter")
    for name, buffer in module.named_buffers(remove_duplicate=False):
        yield _Entry(name, buffer, "buffer" if name in saved else "constant")
    for name, tensor in constants.items():
        yield _Entry(name, tensor, "constant")


class _Tree:
    """Which containers the names need: a `ModuleDict` where a child's name is no identifier, else a `Module`."""

    def __init__(self, names: list[str]) -> None:
        owners = [name.rpartition(".")[0] for name in names if "." in name]
        prefixes = dict.fromkeys(prefix for owner in owners for prefix in _prefixes(owner))
        dicts = {prefix.rpartition(".")[0] for prefix in prefixes if not _identifier(prefix.rpartition(".")[2])}
        self.base = "nn.ModuleDict" if "" in dicts else "nn.Module"
        self.lines = [f"{place(p)} = nn.{'ModuleDict' if p in dicts else 'Module'}()" for p in prefixes]


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _identifier(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def place(name: str) -> str:
    """`self.layers["0"]` for the module "layers.0"."""
    parts = name.split(".") if name else []
    return "self" + "".join(f".{part}" if _identifier(part) else f'["{part}"]' for part in parts)


def _leaf_place(name: str) -> str:
    """The same for a tensor, whose owner need not be a `ModuleDict`."""
    owner, _, last = name.rpartition(".")
    return f"{place(owner)}.{last}" if _identifier(last) else f'getattr({place(owner)}, "{last}")'


def _statement(entry: _Entry, expression: str) -> str:
    """Registers what `expression` makes under the entry's name."""
    owner, _, last = entry.name.rpartition(".")
    if entry.kind == "parameter":
        return f'{place(owner)}.register_parameter("{last}", {expression})'
    persistent = "" if entry.kind == "buffer" else ", persistent=False"
    return f'{place(owner)}.register_buffer("{last}", {expression}{persistent})'


def _made(entry: _Entry, state: State) -> str:
    expression = _expression(entry, state)
    if entry.kind != "parameter":
        return _statement(entry, expression)
    fixed = "" if entry.tensor.requires_grad else ", requires_grad=False"
    made = f"nn.Parameter({expression}{fixed})"
    last = entry.name.rpartition(".")[2]
    return f"{state.places[entry.name]} = {made}" if _identifier(last) else _statement(entry, made)


def _expression(entry: _Entry, state: State) -> str:
    tensor = entry.tensor.detach()
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TaskError(f"the {entry.kind} {entry.name} is no dense tensor; write the task as a file instead")
    drawn = tensor.is_floating_point() or tensor.is_complex()
    drawn = drawn and tensor.numel() > 0 and bool(torch.isfinite(tensor).all())
    if drawn and (entry.kind == "parameter" or entry.name.endswith(_STATISTICS)):
        return like_weights(tensor)
    if (expression := exact(tensor)) is not None:
        return expression
    if drawn and entry.kind == "buffer":  # irregular, and the state dict restores it
        return like_weights(tensor)
    if not storable(tensor):
        size = f"{tensor.nbytes / 2**20:.1f} MiB"
        raise TaskError(
            f"the {entry.kind} {entry.name} {shape(tensor)} holds {size} of irregular values that the task would have "
            "to contain; make it an input, or write the task as a file that computes it"
        )
    state.stored[entry.name] = tensor
    return f'stored("{entry.name}", {shape(tensor)}, {tensor.dtype})'
