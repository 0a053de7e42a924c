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
        self.names: list[str] = []
        self.changed: list[str] = []

    def _task(self) -> task_module.TaskModule:
        assert self.module is not None
        return self.module

    def on_load(self, request: dict[str, Any]) -> dict[str, Any]:
        self.dtype = harness.set_precision(request["precision"])
        self.module = self._owned(lambda: task_module.load(Path(request["folder"])))
        return {}

    def on_inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        """Inputs made under a secret seed, in the contract's precision."""
        harness.seed_everything(request["seed"])
        inputs = self._owned(lambda: task_module.make_inputs(self._task(), request["seed"], self.device))
        return self.describe(harness.cast_floats(list(inputs), self.dtype), with_extra=False)

    def on_init_inputs(self, request: dict[str, Any]) -> dict[str, Any]:
        harness.seed_everything(request["seed"])
        inputs = self._owned(lambda: list(task_module.init_arguments(self._task())))
        return self.describe(inputs, with_extra=False)

    def on_build(self, request: dict[str, Any]) -> dict[str, Any]:
        """The model under a secret seed; replies with its state."""
        harness.seed_everything(request["seed"])
        model = self._owned(lambda: task_module.make_model(self._task(), request["seed"], self.device))
        if request["mode"] == "eval":
            model.eval()
        harness.cast_model(model, self.dtype)
        self.reference = model
        self.variants = {"eager": model}
        self.model = model
        rows, tensors = harness.describe_state(model)
        self.names = [row["name"] for row in rows]
        return self.describe(tensors, with_extra=False) | {"state": rows}

    def on_state(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copies a state from the shared memory into the model and its variants, in place."""
        assert self.region is not None
        assert self.reference is not None
        oracle = self.variants.get("oracle")
        models = [self.reference, *([oracle.lifted] if isinstance(oracle, _Lifted) else [])]
        for name, spec in request["state"].items():
            for model in models:
                owner, leaf = harness.owner_of(model, name)
                getattr(owner, leaf).detach().copy_(self.region.tensor(spec))
        return {}

    def on_watch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Buffers (by name) that a call changes: outputs too, from now on."""
        assert self.reference is not None
        self.changed = request["names"]
        self.extra_outputs = [harness.owner_of(self.reference, name) for name in self.changed]
        return {}

    def on_buffers(self, request: dict[str, Any]) -> dict[str, Any]:
        """The state as it is now."""
        assert self.reference is not None
        now = [harness.owner_of(self.reference, name) for name in self.names]
        return self.describe([getattr(owner, leaf) for owner, leaf in now], with_extra=False)

    def on_use(self, request: dict[str, Any]) -> dict[str, Any]:
        """Chooses what `run` runs: eager, compile, oracle (double precision; `single`: rounded then, to half the size)
        or reordered."""
        how = request["how"]
        if how not in self.variants:
            self.variants[how] = self._variant(how, request["single"])
        self.model = self.variants[how]
        assert self.reference is not None
        model = self.model.lifted if isinstance(self.model, _Lifted) else self.reference
        self.extra_outputs = [harness.owner_of(model, name) for name in self.changed]
        return {}

    def on_seed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Random numbers that a task draws in its forward start from here."""
        harness.seed_everything(request["seed"])
        return {}

    def _variant(self, how: str, single: bool) -> Callable[..., Any]:
        assert self.reference is not None
        if how == "compile":
            torch._dynamo.reset()
            return torch.compile(self.reference, dynamic=False)
        if how == "oracle":
            return _Lifted(copy.deepcopy(self.reference).double(), single)
        if how == "reordered":
            return _reordered(self.reference)
        raise RequestError("request", f"no variant {how!r}")

    def _owned(self, function: Callable[[], Any]) -> Any:
        """Runs task code; a TaskError becomes the task's fault in the reply."""
        try:
            return function()
        except TaskError as error:
            raise RequestError("task", str(error)) from None


class _Lifted:
    """The reference in double precision; float inputs are lifted."""

    def __init__(self, model: torch.nn.Module, single: bool) -> None:
        self.lifted, self.single = model, single

    def __call__(self, *inputs: Any) -> Any:
        output = self.lifted(*[_cast(value, torch.float64) for value in inputs])
        return _cast(output, torch.float32) if self.single else output


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(_cast(v, dtype) for v in value)
    if isinstance(value, dict):
        return {k: _cast(v, dtype) for k, v in value.items()}
    return value


def _reordered(model: Callable[..., Any]) -> Callable[..., Any]:
    """The same computation summed in another order: one thread, and the other matrix and convolution library."""

    def run(*inputs: Any) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
                return model(*inputs)
        finally:
            torch.set_num_threads(threads)

    return run
