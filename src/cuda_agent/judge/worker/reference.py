"""The worker that runs the task: its inputs, its reference, the oracle in double precision, the baselines."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cuda_agent.errors import TaskError
from cuda_agent.judge import task_module
from cuda_agent.judge.worker import harness
from cuda_agent.judge.worker.harness import Harness, RequestError


class ReferenceHarness(Harness):
    def __init__(self, channel: socket.socket) -> None:
        super().__init__(channel)
        self.module: task_module.TaskModule | None = None
        self.reference: torch.nn.Module | None = None
        self.variants: dict[str, Callable[..., Any]] = {}
        self.dtype = torch.float32
        self.state: dict[str, torch.Tensor] = {}
        self.changed: list[str] = []

    def _task(self) -> task_module.TaskModule:
        assert self.module is not None
        return self.module

    def on_load(self, request: dict[str, Any]) -> dict[str, Any]:
        self.dtype = harness.PRECISIONS[request["precision"]]
        torch.set_float32_matmul_precision("highest")
        self.module = self._owned(lambda: task_module.load(Path("/task")))
        return {}

    def on_inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        """Inputs made under a secret seed, in the contract's precision."""
        harness.seed_everything(request["seed"])
        inputs = self._owned(lambda: task_module.make_inputs(self._task(), request["seed"]))
        return self.describe(harness.cast_floats(list(inputs), self.dtype), with_extra=False)

    def on_init_inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        harness.seed_everything(request["seed"])
        inputs = self._owned(lambda: list(task_module.init_arguments(self._task())))
        return self.describe(inputs, with_extra=False)

    def on_build(self, request: dict[str, Any]) -> dict[str, Any]:
        """The model under a secret seed; replies with its state."""
        harness.seed_everything(request["seed"])
        model = self._owned(lambda: task_module.make_model(self._task(), request["seed"], "cpu"))
        if request["mode"] == "eval":
            model.eval()
        model.to(self.dtype)
        self.reference = model
        self.variants = {"eager": model}
        self.model = model
        rows, tensors = harness.describe_state(model)
        self.state = {row["name"]: tensor for row, tensor in zip(rows, tensors, strict=True)}
        return self.describe(tensors, with_extra=False) | {"state": rows}

    def on_state(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copies a state from the shared memory into the model and its variants, in place."""
        assert self.region is not None
        for name, spec in request["state"].items():
            self.state[name].copy_(self.region.tensor(spec))
        oracle = self.variants.get("oracle")
        if isinstance(oracle, torch.nn.Module):
            for name, value in oracle.state_dict(keep_vars=True).items():
                value.detach().copy_(self.state[name])
        return {}

    def on_watch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Buffers (by name) that a call changes: outputs too, from now on."""
        self.changed = request["names"]
        self.extra_outputs = [self.state[name] for name in self.changed]
        return {}

    def on_buffers(self, request: dict[str, Any]) -> dict[str, Any]:
        """The state as it is now."""
        return self.describe(list(self.state.values()), with_extra=False)

    def on_use(self, request: dict[str, Any]) -> dict[str, Any]:
        """Chooses what `run` runs: eager, compile, oracle (double precision) or reordered."""
        how = request["how"]
        if how not in self.variants:
            self.variants[how] = self._variant(how)
        self.model = self.variants[how]
        if how == "oracle":
            oracle = self.variants["oracle"]
            assert isinstance(oracle, torch.nn.Module)
            current = oracle.state_dict(keep_vars=True)
            self.extra_outputs = [current[name].detach() for name in self.changed]
        else:
            self.extra_outputs = [self.state[name] for name in self.changed]
        return {}

    def on_seed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Random numbers that a task draws in its forward start from here."""
        harness.seed_everything(request["seed"])
        return {}

    def _variant(self, how: str) -> Callable[..., Any]:
        assert self.reference is not None
        if how == "compile":
            torch._dynamo.reset()
            return torch.compile(self.reference, dynamic=False)
        if how == "oracle":
            return _Lifted(copy.deepcopy(self.reference).double())
        if how == "reordered":
            return _reordered(self.reference)
        raise RequestError("request", f"no variant {how!r}")

    def _owned(self, function: Callable[[], Any]) -> Any:
        """Runs task code; a TaskError becomes the task's fault in the reply."""
        try:
            return function()
        except TaskError as error:
            raise RequestError("task", str(error)) from None


class _Lifted(torch.nn.Module):
    """The reference in double precision; float inputs are lifted, its state keeps its names."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self._lifted = [model]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self._lifted[0].state_dict(*args, **kwargs)

    def forward(self, *inputs: Any) -> Any:
        return self._lifted[0](*[_lift(value) for value in inputs])


def _lift(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(_lift(v) for v in value)
    if isinstance(value, dict):
        return {k: _lift(v) for k, v in value.items()}
    return value


def _reordered(model: Callable[..., Any]) -> Callable[..., Any]:
    """The same computation summed in another order: one thread, and the other matrix and convolution library."""

    def run(*inputs: Any) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.backends.mkldnn.flags(enabled=False):
                return model(*inputs)
        finally:
            torch.set_num_threads(threads)

    return run
