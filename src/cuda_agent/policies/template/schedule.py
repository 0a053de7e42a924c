"""Decides what lies in memory and what is computed together, and in which order everything runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.body import BodyWriter, Buffer, NeedRealise, Place
from cuda_agent.policies.template.graph import safe_name
from cuda_agent.policies.template.ir import (
    Call, Concat, Const, Gather, Input, Node, Point, Position, Reduce, Scan, View, contiguous_strides, walk,
)
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.loops import Kernel, tree_cost, write_kernel
from cuda_agent.policies.template.lower import Program

PYTHON_VIEWS = ("reshape", "expand", "permute")


@dataclass
class CallStep:
    """A line of Python: `result = code`."""

    result: Buffer
    code: str
    reads: list[Buffer]
    target: str
    fallback: bool
    item: int | None = None


@dataclass
class KernelStep:
    kernel: Kernel
    result: Buffer
    alone: bool = True
    """Whether this kernel writes the whole of `result`."""


@dataclass
class Schedule:
    steps: list[CallStep | KernelStep]
    outputs: Any
    """The structure of the result with Python expressions at its leaves."""
    effects: list[tuple[str, str]]
    """Buffers that a call changes: (state dict name, Python expression)."""
    shapes: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)


class Scheduler:
    def __init__(self, program: Program, knobs: Knobs) -> None:
        self.program, self.knobs = program, knobs
        self.places: dict[Node, Place] = {}
        self.steps: list[CallStep | KernelStep] = []
        self.shapes: dict[Buffer, tuple[int, ...]] = {}
        self._names: set[str] = set()
        self._count = 0

    def run(self) -> Schedule:
        roots = self._roots()
        for node in roots:
            self._realise_ahead(node, roots)
        outputs = self._structure(self.program.graph.outputs)
        effects = []
        for effect in self.program.graph.effects:
            effects.append((effect["buffer"], self.python(self.program.values[effect["node"]], copy=False)))
        return Schedule(self.steps, outputs, effects, self.shapes)

    # -- what lies in memory --------------------------------------------------------------------------------------------

    def _roots(self) -> list[Node]:
        """Results and what library calls read, sources first."""
        leaves: list[Node] = []

        def visit(value: Any) -> None:
            if isinstance(value, dict) and "node" in value:
                node = self.program.values[value["node"]]
                if isinstance(node, Node):
                    leaves.append(node)
            elif isinstance(value, dict):
                for item in value.get("tuple") or value.get("list") or [v for _, v in value.get("dict", [])]:
                    visit(item)

        visit(self.program.graph.outputs)
        leaves += [self.program.values[e["node"]] for e in self.program.graph.effects]
        order = walk(leaves)
        needed = {self._base(leaf) for leaf in leaves}
        needed |= {self._base(a) for n in order if isinstance(n, Call) for a in n.args}
        needed |= {n for n in order if isinstance(n, Call | Concat)}
        needed |= self._shared(order, needed)
        return [n for n in order if n in needed]

    def _base(self, node: Node) -> Node:
        """What has to lie in memory so that Python can view it as `node`."""
        inner = node
        while isinstance(inner, View) and inner.kind in PYTHON_VIEWS:
            if inner.kind == "reshape" and isinstance(inner.src, View) and inner.src.kind in ("expand", "permute"):
                return node
            inner = inner.src
        if isinstance(inner, View) and inner.kind == "slice" and isinstance(self._base(inner.src), Input | Call):
            return self._base(inner.src)
        return inner

    def _shared(self, order: list[Node], needed: set[Node]) -> set[Node]:
        """Costly values that several kernels would compute again."""
        found: set[Node] = set()
        while True:
            owners: dict[Node, set[Node]] = {}
            users: dict[Node, list[Node]] = {}
            for node in reversed(order):
                for source in node.sources:
                    users.setdefault(source, []).append(node)
                if node in needed or node in found:
                    owners[node] = {node}
                else:
                    owners[node] = set().union(*(owners[u] for u in users.get(node, [])))
            top = [n for n in order if n not in needed | found and len(owners[n]) > 1 and self._costly(n)
                   and not any(len(owners[u]) > 1 and u not in needed | found and self._costly(u) and owners[u] == owners[n]
                               for u in users.get(n, []))]
            if not top:
                return found
            found.add(top[-1])

    def _costly(self, node: Node) -> bool:
        if isinstance(node, Reduce | Scan):
            return True
        if not isinstance(node, Point):
            return False
        return tree_cost(node, self.place_of) >= 10 or any(isinstance(s, Reduce) for s in walk([node]))

    def place_of(self, node: Node) -> Place | None:
        if isinstance(node, Input) and node not in self.places:
            buffer = Buffer(self._fresh(node.name), node.dtype, node.numel, node.kind)
            self.places[node] = Place(buffer, contiguous_strides(node.shape))
        return self.places.get(node)

    def _fresh(self, name: str) -> str:
        taken = name = safe_name(name)
        while taken in self._names:
            self._count += 1
            taken = f"{name}_{self._count}"
        self._names.add(taken)
        return taken

    def _realise_ahead(self, node: Node, roots: list[Node]) -> None:
        if self.knobs.fuse:
            self.realise(node)
            return
        for inner in walk([node]):
            if isinstance(inner, Point | Reduce | Scan | Gather | Concat | Call) or inner is node:
                self.realise(inner)

    def realise(self, node: Node) -> Place:
        """Makes `node` lie in memory, after everything that it needs."""
        place = self.place_of(node)
        if place is not None:
            return place
        if isinstance(node, Call):
            return self._call(node)
        buffer = Buffer(self._fresh("out"), node.dtype, node.numel, "temporary")
        self.shapes[buffer] = node.shape
        place = Place(buffer, contiguous_strides(node.shape))
        if isinstance(node, Concat):
            offset = 0
            for part in node.parts:
                self._kernel(part, Place(buffer, place.strides, offset * place.strides[node.dim]), alone=False)
                offset += part.shape[node.dim]
        else:
            self._kernel(node, place)
        self.places[node] = place
        return place

    def _kernel(self, node: Node, place: Place, alone: bool = True) -> None:
        while True:
            try:
                writer = BodyWriter(node, place, self.place_of)
                kernel = write_kernel(f"k{len(self.steps)}", writer, self.knobs, describe(node, self.place_of))
                break
            except NeedRealise as needed:
                if needed.node is node:
                    raise cpp.NoCode(f"a kernel for {type(node).__name__} of shape {node.shape}") from None
                self.realise(needed.node)
        kernel.text = kernel.text.replace(f"void {kernel.name}(", f"void k{len(self.steps)}(")
        kernel.name = f"k{len(self.steps)}"
        self.steps.append(KernelStep(kernel, place.buffer, alone))

    def _call(self, node: Call) -> Place:
        codes = [self.python(a) for a in node.args]
        reads = list(self.code_buffers_of(node.args))
        buffer = Buffer(self._fresh("y"), node.dtype, node.numel, "call")
        self.shapes[buffer] = node.shape
        self.steps.append(CallStep(buffer, node.template.format(*codes), reads, node.target, node.fallback, node.item))
        self.places[node] = Place(buffer, contiguous_strides(node.shape))
        return self.places[node]

    def code_buffers_of(self, nodes: tuple[Node, ...]) -> list[Buffer]:
        return [self.realise(self._base(n)).buffer for n in nodes if not isinstance(n, Const)]

    # -- Python ---------------------------------------------------------------------------------------------------------

    def python(self, node: Node, copy: bool = True) -> str:
        """A Python expression for a tensor, with `<name>` for buffers."""
        if isinstance(node, Const):
            return f"torch.full({list(node.shape)}, {node.value!r}, dtype=torch.{node.dtype})"
        base = self._base(node)
        if base is node:
            place = self.realise(node)
            return f"<{place.buffer.name}>"
        assert isinstance(node, View)
        inner = self.python(node.src)
        if node.kind == "permute":
            return f"{inner}.permute({', '.join(map(str, node.data))})"
        if node.kind == "slice":
            cuts = [f"{start}:{start + (size - 1) * step + 1}" + (f":{step}" if step > 1 else "")
                    for (start, step), size in zip(node.data, node.shape, strict=True)]
            return f"{inner}[{', '.join(cuts)}]"
        sizes = ", ".join(map(str, node.shape))
        method = "expand" if node.kind == "expand" else "reshape"
        return f"{inner}.{method}({sizes or '()'})"

    def _structure(self, value: Any) -> Any:
        if isinstance(value, dict) and "node" in value:
            node = self.program.values[value["node"]]
            return {"code": self.python(node) if isinstance(node, Node) else repr(node)}
        if isinstance(value, dict) and "value" in value:
            return {"code": repr(value["value"])}
        kind = next(iter(value))
        if kind == "dict":
            return {"dict": [[k, self._structure(v)] for k, v in value["dict"]]}
        return {kind: [self._structure(v) for v in value[kind]]}


def describe(node: Node, place_of: Any) -> str:
    """The operations of a kernel in a few words, for its comment."""
    words: list[str] = []
    stack, seen = [node], set()
    while stack:
        current = stack.pop()
        if current in seen or (place_of(current) is not None and current is not node):
            continue
        seen.add(current)
        if isinstance(current, Point):
            words.append(current.op)
        elif isinstance(current, Reduce | Scan):
            words.append(f"{'running ' if isinstance(current, Scan) else ''}{current.op}")
        elif isinstance(current, Gather):
            words.append("gather")
        stack.extend(reversed(current.sources))
    distinct = list(dict.fromkeys(reversed(words))) or ["copy"]
    shape = "x".join(map(str, node.shape)) or "scalar"
    return f"{' '.join(distinct[:12])}{' …' if len(distinct) > 12 else ''} -> {node.dtype} {shape}"


__all__ = ["CallStep", "KernelStep", "Position", "Schedule", "Scheduler"]
