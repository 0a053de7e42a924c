"""The forward of the generated module: an exported graph as torch calls, one a line.

Names are used again as soon as their value is dead, so that the source frees tensors when the live module does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch.fx import Node

from cuda_agent.errors import TaskError
from cuda_agent.live.calls import call
from cuda_agent.live.text import literal

_IGNORED = re.compile(r"_assert|sym_constrain|_check")
_SAME = ("alias.default", "detach.default", "detach_.default", "lift_fresh.default")
Arguments = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Expression:
    """Source that stands for a value; lies in a graph's arguments or in an output's structure in its place."""

    text: str


class ForwardWriter:
    """Writes the nodes of one exported graph as `lines`.

    `places` says how placeholders are reached; `substituted` holds arguments to use instead of a node's own. New
    tensors are made on `device`, and those of the same type as `like` (a dtype and how to reach it) follow that one.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        places: Mapping[str, str],
        *,
        device: str,
        like: tuple[torch.dtype, str] | None,
        taken: set[str],
        substituted: Mapping[str, Arguments],
        plain: bool,
    ) -> None:
        self.lines: list[str] = []
        self._texts = dict(places)
        self._device = device
        self._like = like
        self._substituted = substituted
        self._plain = plain
        self._names = _fresh_names(taken)
        self._free: list[str] = []
        self._roots = {node: node for node in nodes}
        self._needed = _needed(nodes)
        self._path = ""
        for node in nodes:
            if node.op == "call_function" and _is_same(node):
                self._roots[node] = self._roots[node.args[0]]  # type: ignore[index]
            for getters in _parts(node) or []:
                self._roots.update(dict.fromkeys(getters, getters[0] if getters else node))
        self._last = self._last_uses(nodes)
        for index, node in enumerate(nodes):
            self._write(index, node)

    def text(self, value: Any) -> str:
        """`value`, a node or a constant, as source."""
        if isinstance(value, Node):
            return self._texts[value.name]
        if isinstance(value, Expression):
            return value.text
        if isinstance(value, list | tuple):
            return f"[{', '.join(self.text(item) for item in value)}]"
        if isinstance(value, torch.device):
            return self._device
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise TaskError("its shapes depend on the values of its inputs")
        return literal(value)

    def _last_uses(self, nodes: Sequence[Node]) -> dict[Node, int]:
        last: dict[Node, int] = {}
        for index, node in enumerate(nodes):
            for used in node.all_input_nodes:
                if node.op == "output" or node in self._needed:
                    last[self._roots[used]] = index
        return last

    def _write(self, index: int, node: Node) -> None:
        if node.op in ("placeholder", "output") or node not in self._needed or node.name in self._texts:
            return
        if node.op != "call_function":
            return  # a submodule of a higher-order operator, which `call` refuses
        if _is_same(node):
            if _is_in_place(node) and not self._copies_itself(node):
                self._comment(node)
                self.lines.append(self._call(node))
            self._release(index, node)
            self._texts[node.name] = self.text(node.args[0])
            return
        self._comment(node)
        text = self._call(node)
        self._release(index, node)
        self._assign(node, text)

    def _copies_itself(self, node: Node) -> bool:
        return "copy_" in str(node.target) and len({self.text(arg) for arg in node.args[:2]}) == 1

    def _call(self, node: Node) -> str:
        args, kwargs = self._substituted.get(node.name, (node.args, node.kwargs))
        kwargs = dict(kwargs)
        if self._like is not None and not node.all_input_nodes and kwargs.get("dtype") is self._like[0]:
            kwargs["dtype"] = Expression(self._like[1])
        return call(node.target, args, kwargs, self.text, self._plain)

    def _assign(self, node: Node, text: str) -> None:
        parts = _parts(node)
        if parts is None:
            self._texts[node.name] = self._name()
            self.lines.append(f"{self._texts[node.name]} = {text}{_remark(node)}")
            return
        names = []
        for getters in parts:
            used = [getter for getter in getters if getter in self._needed]
            names.append(self._name() if used else "_")
            for getter in used:
                self._texts[getter.name] = names[-1]
        left = f"({names[0]},)" if len(names) == 1 else ", ".join(names)
        self.lines.append(f"{left} = {text}")

    def _name(self) -> str:
        return self._free.pop(0) if self._free else next(self._names)

    def _release(self, index: int, node: Node) -> None:
        """Frees the names of values that `node` is the last to use; its first argument's is taken first."""
        dead = [used for used in node.all_input_nodes if self._last.get(self._roots[used]) == index]
        names = [self._texts[used.name] for used in dead if self._roots[used].op == "call_function"]
        free = [name for name in dict.fromkeys(names) if name.isidentifier()]
        self._free = free[:1] + sorted(self._free + free[1:], key=lambda name: (len(name), name))

    def _comment(self, node: Node) -> None:
        """A line that names the submodule of the live module, where another one begins."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = (stack[-1][0], str(stack[-1][1]).rpartition(".")[2].strip("'>")) if stack else ("", "")
        if path != self._path and path:
            self.lines.append(f"# {path} ({kind})")
        self._path = path


def structure(value: Any, text: Any) -> str:
    """An output's structure as source, its leaves put down by `text`; a named tuple becomes a tuple."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {structure(item, text)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        items = [structure(item, text) for item in value]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, Expression | bool | int | float | complex | None):
        return str(text(value))
    raise TaskError(f"forward returns a {type(value).__name__}; wrap the module so that it returns a tuple or a dict")


def _needed(nodes: Sequence[Node]) -> set[Node]:
    """What the output depends on, and what changes a tensor."""
    needed: set[Node] = set()
    for node in reversed(nodes):
        wanted = node.op == "output" or node in needed or (_is_mutating(node) and not _IGNORED.search(str(node.target)))
        if wanted:
            needed.add(node)
            needed.update(node.all_input_nodes)
    return needed


def _is_mutating(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_in_place(node: Node) -> bool:
    return _is_mutating(node) and str(node.target).split(".")[1].endswith("_") and "detach_" not in str(node.target)


def _is_same(node: Node) -> bool:
    """The result is the first argument itself."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    name = str(node.target).removeprefix("aten.")
    evaluated = name in ("dropout.default", "feature_dropout.default", "alpha_dropout.default") and not node.args[2]
    return name in _SAME or evaluated or _is_in_place(node)


def _parts(node: Node) -> list[list[Node]] | None:
    """For an operator with several results that are all taken apart: who takes each."""
    value = node.meta.get("val")
    if not isinstance(value, list | tuple) or any(user.target is not operator.getitem for user in node.users):
        return None
    return [[user for user in node.users if user.args[1] == index] for index in range(len(value))]


def _remark(node: Node) -> str:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return ""
    return f"  # {str(value.dtype).removeprefix('torch.')}{[int(size) for size in value.shape]}"


def _fresh_names(taken: set[str]) -> Iterator[str]:
    names = (f"y{number}" if number else "y" for number in count())
    return (name for name in names if name not in taken)
