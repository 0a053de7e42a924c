"""Builds what the template policy writes and compares it with torch, without a judge."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import cuda_agent.backends  # noqa: F401  (the parser of C++ signatures)
from cuda_agent.policies.template.graph import Graph
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.module import Written, write_solution
from cuda_agent.policies.template.trace import trace

_SERIAL = itertools.count()


class Case(nn.Module):
    """A function of tensors, with modules and parameters that it may use as `s.m` and `s.p`."""

    def __init__(
        self, function: Callable[..., Any], *modules: nn.Module, parameters: Sequence[torch.Tensor] = ()
    ) -> None:
        super().__init__()
        self.function, self.m = function, nn.ModuleList(modules)
        self.p = nn.ParameterList([nn.Parameter(p) for p in parameters])

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


class Together(nn.Module):
    """Several cases in one module, so that one translation unit holds all their kernels."""

    def __init__(self, cases: dict[str, tuple[Case, list[Any]]]) -> None:
        super().__init__()
        self.cases = nn.ModuleList(case for case, _ in cases.values())
        self.names, self.counts = list(cases), [len(inputs) for _, inputs in cases.values()]

    def forward(self, *inputs: Any) -> dict[str, Any]:
        found, at = {}, 0
        for name, case, count in zip(self.names, self.cases, self.counts, strict=True):
            found[name] = case(*inputs[at : at + count])
            at += count
        return found


def traced(model: nn.Module, inputs: Sequence[Any]) -> Graph:
    """The graph, through JSON as the policy gets it."""
    return Graph.model_validate(json.loads(json.dumps(trace(model, list(inputs)))))


def built(
    model: nn.Module, inputs: Sequence[Any], folder: Path, knobs: Knobs | None = None, graph: Graph | None = None
) -> tuple[nn.Module, Written]:
    """`ModelNew` with the weights of `model`, ready to call."""
    graph = graph or traced(model, inputs)
    assert not graph.problems, graph.problems
    written = write_solution(graph, knobs or Knobs())
    new = loaded(written, folder)
    new.load_state_dict(model.state_dict())
    new.prepare()  # type: ignore[operator]
    return new.eval(), written


def loaded(written: Written, folder: Path) -> nn.Module:
    for name, text in written.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"written_{next(_SERIAL)}", folder / "model_new.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: nn.Module = module.ModelNew()
    return made


def randomised(model: nn.Module) -> nn.Module:
    """Weights and statistics at which nothing drops out."""
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.5 + 0.3
    for buffer in model.buffers():
        if buffer.dtype.is_floating_point:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    return model.eval()


def wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


def check(case: nn.Module, inputs: Sequence[Any], got: Any, slack: float = 0.0) -> None:
    """`got` is what `case` gives, as near to fp64 as fp32 allows, or nearer than `slack`."""
    with torch.no_grad():
        expected = case(*inputs)
        exact = copy.deepcopy(case).double()(*map(wide, inputs))
    compare(expected, got, exact, slack)


def compare(expected: Any, got: Any, exact: Any, slack: float = 0.0, where: str = "the output") -> None:
    if isinstance(expected, tuple | list):
        assert isinstance(got, tuple if isinstance(expected, tuple) else list) and len(got) == len(expected), where
        for i, rows in enumerate(zip(expected, got, exact, strict=True)):
            compare(*rows, slack, f"{where}[{i}]")
    elif isinstance(expected, dict):
        assert list(got) == list(expected), where
        for key in expected:
            compare(expected[key], got[key], exact[key], slack, f"{where}[{key!r}]")
    elif not isinstance(expected, torch.Tensor):
        assert got == expected and type(got) is type(expected), where
    else:
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), f"{where}: {got.shape} {got.dtype}"
        _close(expected, got, exact, slack, where)


def _close(expected: torch.Tensor, got: torch.Tensor, exact: torch.Tensor, slack: float, where: str) -> None:
    if not expected.dtype.is_floating_point:
        assert torch.equal(expected, got), where
        return
    assert torch.equal(expected.isnan(), got.isnan()), f"{where}: NaN elsewhere"
    finite = expected.isfinite()
    infinite = ~finite & ~expected.isnan()
    assert torch.equal(expected[infinite], got[infinite]), f"{where}: infinities elsewhere"
    if not finite.any():
        return
    oracle = exact.double()[finite]
    rms = oracle.pow(2).mean().sqrt()
    bound = 8 * (expected.double()[finite] - oracle).abs() + 2e-5 * (oracle.abs() + rms) + 1e-30 + slack
    excess = ((got.double()[finite] - oracle).abs() / bound).max().item()
    assert excess <= 1, f"{where}: {excess:.3g} times the bound"
