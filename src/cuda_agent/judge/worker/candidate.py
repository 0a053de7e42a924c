"""The worker that holds a candidate, and nothing else that could help it: no reference, no expected output."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import time
from typing import Any

import torch

from cuda_agent.judge.worker import audit, harness, wire
from cuda_agent.judge.worker.harness import Harness, RequestError


class CandidateHarness(Harness):
    def __init__(self, channel: socket.socket) -> None:
        super().__init__(channel)
        self.solution: Any = None
        self.candidate: torch.nn.Module | None = None
        self.dtype = torch.float32
        self.names: set[str] = set()
        self.rules = "any"

    def on_load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Imports `model_new`. Own kernels are loaded from what the judge built beforehand."""
        self.dtype = harness.set_precision(request["precision"])
        self.rules = request["rules"]
        audit.before_import(self.rules, request["disable_kernels"], request["triton"])
        if request["extensions"]:
            from cuda_agent.backends import inline

            inline.install()
        sys.path.insert(0, request["folder"])
        os.chdir(request["folder"])
        self.solution = importlib.import_module("model_new")
        if not isinstance(getattr(self.solution, "ModelNew", None), type):
            raise RequestError("solution", "model_new.py defines no class ModelNew")
        return {}

    def on_build(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.region is not None
        region = self.region
        tensors = [region.tensor(spec, request["base"]).clone().cpu() for spec in request["tensors"]]
        args, kwargs = wire.decode(request["tree"], tensors.__getitem__)
        harness.seed_everything(request["seed"])
        model = self.solution.ModelNew(*args, **kwargs)
        if not callable(model):
            raise RequestError("solution", "ModelNew is not callable; it must be a torch.nn.Module")
        if isinstance(model, torch.nn.Module):
            model.eval() if request["mode"] == "eval" else None
            harness.cast_model(model, self.dtype)
            model.to(self.device)
        self.candidate = model
        self.model = model
        rows, tensors = harness.describe_state(model) if isinstance(model, torch.nn.Module) else ([], [])
        self.names = {row["name"] for row in rows}
        shapes = [[list(t.shape), harness.NAMES.get(t.dtype, "")] for t in tensors]
        return {"state": [row | {"shape": s[0], "dtype": s[1]} for row, s in zip(rows, shapes, strict=True)]}

    def on_state(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copies a state into the candidate's parameters and buffers, in place, then lets it prepare."""
        assert self.region is not None
        for name, spec in request["state"].items():
            self._target(name).copy_(self.region.tensor(spec))
        return self._prepare() if request["prepare"] else {}

    def on_prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._prepare()

    def on_watch(self, request: dict[str, Any]) -> dict[str, Any]:
        missing = [name for name in request["names"] if name not in self.names]
        if missing:
            raise RequestError("solution", f"ModelNew has no buffer {missing[0]!r}, which the reference changes")
        assert self.candidate is not None
        self.extra_outputs = [harness.owner_of(self.candidate, name) for name in request["names"]]
        return {}

    def _target(self, name: str) -> torch.Tensor:
        assert self.candidate is not None
        owner, leaf = harness.owner_of(self.candidate, name)
        target: torch.Tensor = getattr(owner, leaf)
        return target.detach()

    def on_audit(self, request: dict[str, Any]) -> dict[str, Any]:
        """One uncounted call under observation: the operators that ran."""
        assert self.model is not None
        arguments = self.inputs[request["slot"]]
        output, operators = audit.observe(lambda: self.model(*arguments))  # type: ignore[misc]
        return self.describe(output) | {"nonce": request["nonce"], "operators": operators, "libraries": audit.foreign()}

    def _prepare(self) -> dict[str, Any]:
        prepare = getattr(self.candidate, "prepare", None)
        if prepare is None:
            return {}
        start = time.perf_counter()
        prepare()
        return {"prepare_s": time.perf_counter() - start}
