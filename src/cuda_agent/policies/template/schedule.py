"""Decides what lies in memory and what is computed together, and in which order everything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_agent.policies.template import cpp
from cuda_agent.policies.template.body import BodyWriter
from cuda_agent.policies.template.graph import safe_name
from cuda_agent.policies.template.ir import (
    Call,
    Concat,
    Const,
    Gather,
    Input,
    Node,
    Point,
    Position,
    Reduce,
    Scan,
    View,
    contiguous_strides,
    walk,
)
from cuda_agent.policies.template.kernel import write_kernel
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.lower import Program, python_text
from cuda_agent.policies.template.plan import tree_cost
from cuda_agent.policies.template.render import Kernel
from cuda_agent.policies.template.statements import Buffer, NeedRealise, Place

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
    results: list[Buffer]
    alone: bool = True
    """Whether this kernel writes the whole of its results."""


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
        self.pending: list[Node] = []
        """What is to lie in memory in the end."""
        self._names: set[str] = set()
        self._count = 0

    def run(self) -> Schedule:
        self.pending = self._roots()
        for node in self.pending:
            self._realise_ahead(node)
        outputs = self._structure(self.program.graph.outputs)
        effects = []
        for effect in self.program.graph.effects:
            effects.append((effect["buffer"], self.python(self.program.values[effect["node"]])))
        return Schedule(self.steps, outputs, effects, self.shapes)

    # -- what lies in memory

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
            owners: dict[Node, set[object]] = {}
            users: dict[Node, list[Node]] = {}
            for node in reversed(order):
                for source in node.sources:
                    users.setdefault(source, []).append(node)
                if node in needed or node in found:
                    # results of one shape may come out of one kernel
                    owners[node] = {node if isinstance(node, Call | Concat | Scan) else node.shape}
                else:
                    owners[node] = set().union(*(owners[u] for u in users.get(node, [])))
            top = [
                n
                for n in order
                if n not in needed | found
                and len(owners[n]) > 1
                and self._costly(n)
                and not any(
                    len(owners[u]) > 1 and u not in needed | found and self._costly(u) and owners[u] == owners[n]
                    for u in users.get(n, [])
                )
            ]
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

    def _realise_ahead(self, node: Node) -> None:
        if self.knobs.fuse:
            self.realise(node)
            return
        for inner in walk([node]):
            if isinstance(inner, Point | Reduce | Scan | Gather | Concat | Call) or inner is node:
                self.realise(inner)

    def realise(self, node: Node, beside: Sequence[Node] = ()) -> Place:
        """Makes `node` lie in memory, after everything that it needs; where one kernel can, also those `beside` it."""
        place = self.place_of(node)
        if place is not None:
            return place
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Concat):
            return self._concat(node)
        group = [node, *self._companions(node, beside)] if self.knobs.fuse else [node]
        while len(group) > 1:
            try:
                self._kernel(group)
                return self.places[node]
            except NeedRealise:
                group.pop()
        self._kernel(group)
        return self.places[node]

    def _companions(self, node: Node, beside: Sequence[Node]) -> list[Node]:
        """Other pending values of the same shape that read some of what `node` reads."""
        near = self._inside(node)
        rest = [
            n
            for n in dict.fromkeys((*beside, *self.pending))
            if n is not node
            and n.shape == node.shape
            and n not in self.places
            and not isinstance(n, Call | Concat | Input | Const)
        ]
        return [n for n in rest if near & self._inside(n)][:4]

    def _inside(self, node: Node) -> set[Node]:
        """What the kernel of a node computes or loads, without constants."""
        found: set[Node] = set()
        stack = [node]
        while stack:
            current = stack.pop()
            if current not in found and not isinstance(current, Const):
                found.add(current)
                if self.place_of(current) is None:
                    stack.extend(current.sources)
        return found

    def _concat(self, node: Concat) -> Place:
        buffer, strides, offset = self._buffer(node), contiguous_strides(node.shape), 0
        for part in node.parts:
            self._kernel([part], Place(buffer, strides, offset * strides[node.dim]))
            offset += part.shape[node.dim]
        self.places[node] = Place(buffer, strides)
        return self.places[node]

    def _buffer(self, node: Node) -> Buffer:
        buffer = Buffer(self._fresh("out"), node.dtype, node.numel, "temporary")
        self.shapes[buffer] = node.shape
        return buffer

    def _kernel(self, nodes: list[Node], part: Place | None = None) -> None:
        """One kernel for values of one shape. For several of them, raises NeedRealise instead of giving way."""
        places = [part or Place(self._buffer(n), contiguous_strides(n.shape)) for n in nodes]
        comment = "; ".join(describe(n, self.place_of) for n in nodes)
        while True:
            try:
                writer = BodyWriter(list(zip(nodes, places, strict=True)), self.place_of)
                kernel = write_kernel("NAME", writer, self.knobs, comment)
                break
            except NeedRealise as needed:
                inner = needed.node
                if inner in nodes and len(nodes) == 1:
                    raise cpp.NoCode(f"a kernel for {type(inner).__name__} of shape {inner.shape}") from None
                if len(nodes) > 1 and (isinstance(inner, Reduce | Scan) or set(nodes) & set(walk([inner]))):
                    for place in places:
                        self._names.discard(place.buffer.name)
                    raise
                self.realise(inner, self._alike(inner, nodes))
        kernel.name = f"k{len(self.steps)}"
        kernel.text = kernel.text.replace("void NAME(", f"void {kernel.name}(")
        self.steps.append(KernelStep(kernel, [p.buffer for p in places], part is None))
        if part is None:
            self.places.update(zip(nodes, places, strict=True))

    def _alike(self, node: Node, roots: list[Node]) -> list[Node]:
        """Reductions in the same kernel over the same rows as `node`, which it will need in memory as well."""
        if not isinstance(node, Reduce):
            return []
        inside = set().union(*(self._inside(r) for r in roots))
        return [
            n
            for n in walk(roots)
            if n in inside
            and isinstance(n, Reduce)
            and n.shape == node.shape
            and n.dims == node.dims
            and n is not node
            and n not in roots
        ]

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

    # -- Python

    def python(self, node: Node) -> str:
        """A Python expression for a tensor, with `<name>` for buffers."""
        if isinstance(node, Const):
            return python_view(node, self.python)
        if self._base(node) is node:
            return f"<{self.realise(node).buffer.name}>"
        return python_view(node, self.python)

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


def python_view(node: Node, inner: Callable[[Node], str]) -> str:
    """Python for a constant or for a view whose source is `inner(source)`. Raises NoCode."""
    if isinstance(node, Const):
        return f"torch.full({list(node.shape)}, {python_text(node.value, [])}, dtype=torch.{node.dtype})"
    if not isinstance(node, View):
        raise cpp.NoCode(f"Python for {type(node).__name__}")
    source, sizes = inner(node.src), ", ".join(map(str, node.shape)) or "()"
    if node.kind == "permute":
        return f"{source}.permute({', '.join(map(str, node.data))})"
    if node.kind == "slice":
        cuts = [
            f"{start}:{start + (size - 1) * step + 1}" + (f":{step}" if step > 1 else "")
            for (start, step), size in zip(node.data, node.shape, strict=True)
        ]
        return f"{source}[{', '.join(cuts)}]"
    if node.kind == "flip":
        return f"{source}.flip({list(node.data)})"
    return f"{source}.{'expand' if node.kind == 'expand' else 'reshape'}({sizes})"


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
