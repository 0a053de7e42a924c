"""Turns the traced operators into the intermediate form, by the rules of `rules/`.

An operator without a rule becomes a call of torch itself, marked as a fallback. What depends on the state only is
computed by `prepare()`, once for given weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from cuda_agent.policies.template.graph import Described, Graph, Operator, safe_name
from cuda_agent.policies.template.ir import Builder, Const, Input, Node, View, walk

RULE_MODULES = ("pointwise", "reductions", "norms", "movement", "library", "pooling")
NATIVE_DTYPES = ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")


class NoRule(Exception):
    """There is no rule for an operator, or none for these arguments; the text says which."""


Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers `f(lowering, operator, *args, **kwargs)` for ATen operators given as NAME or NAME.OVERLOAD."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def rule_for(op: str) -> Rule | None:
    namespace, name, *overload = op.split(".")
    if namespace not in ("aten", "prims"):
        return None
    return RULES.get(".".join([name, *overload])) or RULES.get(name)


@dataclass
class Derived:
    """A tensor that `prepare` makes: Python with `{0}`, `{1}`, … for `args`, which are state or derived tensors."""

    node: Input
    template: str
    args: tuple[Node, ...]


@dataclass
class Program:
    """A lowered graph."""

    graph: Graph
    values: dict[str, Any]
    """By name of the traced node."""
    derived: list[Derived]
    fallbacks: dict[str, str]
    """Operators left to torch, and why."""
    folded: list[str]
    """What was folded into weights, for people."""


@dataclass
class Lowering:
    graph: Graph
    fold: bool = True
    b: Builder = field(default_factory=Builder)
    values: dict[str, Any] = field(default_factory=dict)
    derived: dict[str, Derived] = field(default_factory=dict)
    fallbacks: dict[str, str] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    uses: dict[str, int] = field(default_factory=dict)
    producers: dict[Node, str] = field(default_factory=dict)

    def run(self) -> Program:
        for module in RULE_MODULES:
            import_module(f"cuda_agent.policies.template.rules.{module}")
        self._leaves()
        self._count_uses()
        for op in self.graph.nodes:
            self.values[op.name] = value = self._lower(op)
            if isinstance(value, Node):
                self.producers.setdefault(value, op.name)
        return Program(self.graph, self.values, list(self.derived.values()), self.fallbacks, self.folded)

    def only_use(self, node: Node) -> bool:
        """Whether the traced operator that made `node` has a single consumer."""
        return self.uses.get(self.producers.get(node, ""), 2) == 1

    def derive(self, template: str, *args: Node, shape: tuple[int, ...], dtype: str, name: str = "folded") -> Node:
        """A tensor that `prepare` computes from tensors that are no inputs."""
        key = template + "|" + ",".join(str(id(a)) for a in args)
        if key not in self.derived:
            node = self.b.input(shape, dtype, f"{name}_{len(self.derived)}", "derived")
            assert isinstance(node, Input)
            self.derived[key] = Derived(node, template, args)
        return self.derived[key].node

    def is_fixed(self, node: Node) -> bool:
        """Whether a tensor depends on the state only."""
        return all(n.kind != "argument" if isinstance(n, Input) else isinstance(n, Const | View) for n in walk([node]))

    def scalar(self, value: Any, dtype: str) -> Node:
        """A number or a node as a node of `dtype`."""
        if isinstance(value, Node):
            return self.b.cast(value, dtype)
        return self.b.const(value, dtype)

    def _leaves(self) -> None:
        for entry in self.graph.inputs:
            if entry.shape is None:
                self.values[entry.name] = decode(entry.value)
            else:
                self.values[entry.name] = self.b.input(
                    tuple(entry.shape), str(entry.dtype), safe_name(entry.name), "argument"
                )
        for state in self.graph.state:
            self.values[state.name] = self._leaf(state, state.name, "state")
        for constant in self.graph.constants:
            self.values[constant.name] = self._leaf(constant, constant.name, "constant")

    def _leaf(self, described: Described, name: str, kind: str) -> Node:
        return self.b.input(tuple(described.shape or ()), str(described.dtype), safe_name(name), kind)

    def _count_uses(self) -> None:
        def visit(value: Any) -> None:
            if isinstance(value, dict):
                if set(value) == {"node"}:
                    self.uses[value["node"]] = self.uses.get(value["node"], 0) + 1
                else:
                    for item in value.values():
                        visit(item)
            elif isinstance(value, list):
                for item in value:
                    visit(item)

        for op in self.graph.nodes:
            visit(op.args)
            visit(op.kwargs)
        visit(self.graph.outputs)
        for effect in self.graph.effects:
            visit({"node": effect["node"]})

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._resolve(item) for item in value]
        if isinstance(value, dict) and set(value) == {"node"}:
            return self.values[value["node"]]
        return decode(value)

    def _lower(self, op: Operator) -> Any:
        args = [self._resolve(a) for a in op.args]
        kwargs = {k: self._resolve(v) for k, v in op.kwargs.items()}
        if op.op == "python.getitem":
            return args[0][args[1]]
        if op.shape is None and op.items is None and "_assert" in op.op:
            return None
        if op.op.startswith("python.") or (op.shape is None and op.items is None):
            raise NoRule(f"{op.op}: a value that is no tensor")
        tensors = _tensors((args, kwargs))
        fixed = bool(tensors) and all(self.is_fixed(t) for t in tensors) and op.shape is not None
        if fixed and not is_movement(op.op):
            return self._call(op, args, kwargs, prepared=True)
        try:
            return self._by_rule(op, args, kwargs)
        except NoRule as reason:
            self.fallbacks.setdefault(op.op, str(reason))
            return self._call(op, args, kwargs, prepared=False)

    def _by_rule(self, op: Operator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = rule_for(op.op)
        if function is None:
            raise NoRule("no rule for this operator")
        described = [op] if op.shape is not None else [d for d in op.items or [] if d is not None]
        dtypes = {str(d.dtype) for d in described} | {t.dtype for t in _tensors((args, kwargs))}
        if not dtypes <= set(NATIVE_DTYPES):
            raise NoRule(f"no rule for {', '.join(sorted(dtypes - set(NATIVE_DTYPES)))}")
        if 0 in (described[0].shape or ()) or any(not t.numel for t in _tensors((args, kwargs))):
            raise NoRule("no rule for empty tensors")
        result = function(self, op, *args, **kwargs)
        if op.shape is not None:
            return self._checked(result, op)
        return tuple(
            r if d is None or r is None else self._checked(r, d) for r, d in zip(result, op.items or [], strict=True)
        )

    def _checked(self, node: Any, described: Described) -> Node:
        """A wrong shape is a fault of a rule, which then does not apply."""
        if not isinstance(node, Node) or list(node.shape) != described.shape:
            raise NoRule(f"its rule gives {getattr(node, 'shape', node)} where torch gives {described.shape}")
        return self.b.cast(node, str(described.dtype))

    def _call(self, op: Operator, args: list[Any], kwargs: dict[str, Any], *, prepared: bool) -> Any:
        nodes: list[Node] = []
        texts = [python_text(a, nodes) for a in args] + [f"{k}={python_text(v, nodes)}" for k, v in kwargs.items()]
        template = f"torch.ops.{op.op}({', '.join(texts)})"
        if prepared:
            return self.derive(template, *nodes, shape=tuple(op.shape or ()), dtype=str(op.dtype))
        if op.shape is not None:
            return self.b.call(op.op, template, *nodes, shape=tuple(op.shape), dtype=str(op.dtype), fallback=True)
        return tuple(
            None
            if d is None
            else self.b.call(
                op.op, template, *nodes, shape=tuple(d.shape or ()), dtype=str(d.dtype), fallback=True, item=i
            )
            for i, d in enumerate(op.items or [])
        )


_MOVEMENT = """view reshape _unsafe_view unsqueeze squeeze expand permute transpose t select slice clone alias detach
lift_fresh_copy contiguous split_with_sizes split unbind chunk flip"""
MOVEMENT = frozenset(_MOVEMENT.split())


def is_movement(op: str) -> bool:
    return op.split(".")[1] in MOVEMENT


def _tensors(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return []


@dataclass(frozen=True)
class Dtype:
    """A dtype given as an argument."""

    name: str


def decode(value: Any) -> Any:
    """The Python value of an encoded argument that is no node."""
    if isinstance(value, dict) and set(value) == {"float"}:
        return float(value["float"])
    if isinstance(value, dict) and set(value) == {"dtype"}:
        return Dtype(value["dtype"])
    if isinstance(value, dict) and set(value) == {"other"}:
        return None  # layouts and devices: the rules build contiguous tensors on the CPU
    return value


def python_text(value: Any, nodes: list[Node]) -> str:
    """Python source of an argument; tensors become `{i}` and are appended to `nodes`."""
    if isinstance(value, Node):
        nodes.append(value)
        return f"{{{len(nodes) - 1}}}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(python_text(v, nodes) for v in value) + "]"
    if isinstance(value, Dtype):
        return f"torch.{value.name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
