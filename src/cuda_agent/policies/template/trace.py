"""Traces a task's module and writes its graph as JSON:
`python -m cuda_agent.policies.template.trace model.py graph.json`.

Runs inside the workspace, beside the task's own code, with torch. The graph holds ATen operators after torch.export's
decompositions, except those of `KEEP`, for which there are better rules. What stops the trace is written to the graph
as `problems`, and the exit code is still 0: a graph with problems is an answer.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import math
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

SCHEMA = 1
MAX_CONSTANT_BYTES = 96 << 10
_KEEP = """gelu silu mish hardswish hardsigmoid softplus elu selu celu leaky_relu hardtanh relu6 log_sigmoid logit
linear layer_norm group_norm instance_norm batch_norm rms_norm softmax.int log_softmax.int logsumexp
scaled_dot_product_attention square addcmul addcdiv lerp.Scalar hardshrink softshrink threshold
max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d std.correction lstm.input gru.input"""
KEEP = _KEEP.split()


def main(argv: list[str]) -> int:
    train = argv[2:] == ["--train"]
    if len(argv) != 2 + train:
        print("usage: python -m cuda_agent.policies.template.trace model.py graph.json [--train]", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    source, target = Path(argv[0]), Path(argv[1])
    try:
        graph = trace_file(source, train)
    except Exception as error:  # the task is somebody else's code: whatever it raises is the answer
        graph = {"schema": SCHEMA, "problems": [f"{type(error).__name__}: {error}"[:2000]]}
    target.write_text(json.dumps(graph, separators=(",", ":")))
    nodes = len(graph.get("nodes", []))
    print(f"{target}: {nodes} operators, {target.stat().st_size} bytes; problems: {graph['problems'] or 'none'}")
    return 0


def trace_file(source: Path, train: bool = False) -> dict[str, Any]:
    """The graph of the task in `source`, in eval() unless `train`. Raises whatever the task or the trace raises."""
    sys.path.insert(0, str(source.parent.resolve()))
    spec = importlib.util.spec_from_file_location("task_model", source)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["task_model"] = module
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    init: Any = getattr(module, "get_init_inputs", list)()
    if isinstance(init, dict):
        model = module.Model(**init)
    elif len(init) == 2 and isinstance(init[0], list | tuple) and isinstance(init[1], dict):
        model = module.Model(*init[0], **init[1])
    else:
        model = module.Model(*init)
    inputs, again = list(module.get_inputs()), list(module.get_inputs())
    graph = trace(model.train(train), inputs)
    if any(not isinstance(a, torch.Tensor) and a != b for a, b in zip(inputs, again, strict=True)):
        graph["problems"].append("a number among the inputs that is another one each time")
    if any(isinstance(a, torch.Tensor) and a.shape != b.shape for a, b in zip(inputs, again, strict=True)):
        graph["problems"].append("inputs of changing shapes")
    return graph


def trace(model: torch.nn.Module, inputs: list[Any]) -> dict[str, Any]:
    """The graph of `model` in its present mode on `inputs`."""
    with torch.no_grad():
        program = torch.export.export(model, tuple(inputs), strict=False)
        program = program.run_decompositions(_decompositions())
    return _Encoder(model, inputs, program).graph()


def _decompositions() -> Any:
    table = torch.export.default_decompositions()
    for name in KEEP:
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if op is not None and op in table:
            del table[op]
    return table


class _Encoder:
    def __init__(self, model: torch.nn.Module, inputs: list[Any], program: Any) -> None:
        self.model, self.inputs, self.program = model, inputs, program
        self.problems: list[str] = []
        self.state: list[dict[str, Any]] = []
        self.constants: list[dict[str, Any]] = []

    def graph(self) -> dict[str, Any]:
        nodes = [self._node(node) for node in self.program.graph.nodes if node.op == "call_function"]
        placeholders = self._placeholders()
        outputs, effects = self._outputs()
        return {
            "schema": SCHEMA,
            "torch": torch.__version__,
            "inputs": placeholders,
            "state": self.state,
            "constants": self.constants,
            "nodes": nodes,
            "outputs": outputs,
            "effects": effects,
            "unused_state": self._unused_state(),
            "problems": self.problems,
        }

    def _placeholders(self) -> list[dict[str, Any]]:
        """The inputs in the order of `forward`'s arguments; state and constants go to their own lists."""
        signature = self.program.graph_signature
        tensors = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        found: list[dict[str, Any]] = []
        for spec in signature.input_specs:
            kind, name = spec.kind.name, spec.arg.name
            value = tensors[name].meta.get("val") if name in tensors else None
            if kind == "USER_INPUT":
                found.append(
                    {"name": name, **_described(value)}
                    if isinstance(value, torch.Tensor)
                    else {"name": name, "value": self._argument(getattr(spec.arg, "value", value))}
                )
            elif kind == "PARAMETER" or (kind == "BUFFER" and spec.persistent):
                self.state.append({"name": name, "target": spec.target, "kind": kind.lower(), **_described(value)})
            elif kind in ("BUFFER", "CONSTANT_TENSOR"):
                self._constant(name, spec.target)
            else:
                self.problems.append(f"an argument of kind {kind}")
        if any(pytree.tree_leaves(value) != [value] for value in self.inputs):
            self.problems.append("inputs that are not plain tensors or numbers")
        return found

    def _constant(self, name: str, target: str) -> None:
        value = self.program.constants[target].detach().cpu().contiguous()
        packed = base64.b85encode(zlib.compress(value.reshape(-1).view(torch.uint8).numpy().tobytes(), 9)).decode()
        if len(packed) > MAX_CONSTANT_BYTES:
            self.problems.append(f"the constant {target} of shape {list(value.shape)} is too large to be written out")
            packed = ""
        self.constants.append({"name": name, **_described(value), "data": packed})

    def _unused_state(self) -> list[dict[str, Any]]:
        """Entries of the state dict that the graph does not read; ModelNew has them all the same."""
        traced = {entry["target"] for entry in self.state}
        parameters = {name for name, _ in self.model.named_parameters()}
        return [
            {
                "name": name.replace(".", "_"),
                "target": name,
                "kind": "parameter" if name in parameters else "buffer",
                **_described(value),
            }
            for name, value in self.model.state_dict().items()
            if name not in traced and isinstance(value, torch.Tensor)
        ]

    def _node(self, node: Any) -> dict[str, Any]:
        target = node.target
        name = str(target) if isinstance(target, torch._ops.OpOverload) else f"python.{target.__name__}"
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            shape = _described(value)
        elif isinstance(value, tuple | list):
            shape = {"items": [_described(item) if isinstance(item, torch.Tensor) else None for item in value]}
        else:
            shape = {"value": self._argument(value)}
        return {
            "name": node.name,
            "op": name,
            "args": self._argument(node.args),
            **({"kwargs": self._argument(dict(node.kwargs))} if node.kwargs else {}),
            **shape,
        }

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.fx.Node):
            return {"node": value.name}
        if isinstance(value, list | tuple):
            return [self._argument(item) for item in value]
        if isinstance(value, dict):
            return {key: self._argument(item) for key, item in value.items()}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        return {"other": str(value)}

    def _outputs(self) -> tuple[Any, list[dict[str, Any]]]:
        """The structure of the result with nodes at its leaves, and the buffers that a call changes."""
        leaves: list[Any] = []
        effects: list[dict[str, Any]] = []
        for spec in self.program.graph_signature.output_specs:
            if spec.kind.name == "USER_OUTPUT":
                constant = not hasattr(spec.arg, "name") or type(spec.arg).__name__ == "ConstantArgument"
                leaves.append(_Leaf(value=self._argument(spec.arg.value)) if constant else _Leaf(node=spec.arg.name))
            elif spec.kind.name == "BUFFER_MUTATION":
                effects.append({"buffer": spec.target, "node": spec.arg.name})
            else:
                self.problems.append(f"a call has an effect of kind {spec.kind.name} on {spec.target}")
        return _structure(pytree.tree_unflatten(leaves, self.program.call_spec.out_spec), self.problems), effects


class _Leaf(dict[str, Any]):
    """`{"node": name}` or `{"value": constant}` in the structure of the result."""


def _structure(value: Any, problems: list[str]) -> Any:
    if isinstance(value, _Leaf):
        return value
    if type(value) is dict:
        return {"dict": [[key, _structure(item, problems)] for key, item in value.items()]}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_structure(item, problems) for item in value]}
    problems.append(f"an output of type {type(value).__name__}")
    return {"value": None}


def _described(value: Any) -> dict[str, Any]:
    return {
        "shape": [int(size) for size in value.shape],
        "dtype": str(value.dtype).removeprefix("torch."),
        "stride": [int(step) for step in value.stride()],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
