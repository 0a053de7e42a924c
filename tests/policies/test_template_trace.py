"""Tracing: the process that runs in the workspace, odd results, and what cannot be traced."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn, randn
from torch.utils._pytree import tree_leaves
from writing import Case, built, compare, traced

from cuda_agent.policies.template.graph import Graph
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.module import write_solution


def trace_source(source: str, folder: Path, *options: str) -> Graph:
    (folder / "model.py").write_text(source)
    command = [sys.executable, "-m", "cuda_agent.policies.template.trace", "model.py", "graph.json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return Graph.model_validate(json.loads((folder / "graph.json").read_text()))


SOURCE = """
import torch
from torch import nn
from beside import FACTOR

class Model(nn.Module):
    def __init__(self, width, factor=2.0):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("mask", torch.tril(torch.ones(width, width)), persistent=False)
    def forward(self, x, n):
        return {"a": self.norm(x) * FACTOR @ self.mask, "b": (x + n, [3, None])}

def get_inputs():
    return [torch.randn(6, 5), 4]
def get_init_inputs():
    return [[5], {"factor": 3.0}]
"""


def test_a_task_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("FACTOR = 1.5\n")
    graph = trace_source(SOURCE, tmp_path)
    assert not graph.problems
    assert [i.name for i in graph.inputs] == ["x", "n"] and graph.inputs[1].value == 4
    names = {s.target for s in (*graph.state, *graph.unused_state)}
    norm = {f"norm.{n}" for n in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}
    assert names == {*norm, "unused"}
    assert [c.shape for c in graph.constants] == [[5, 5]]
    assert list(dict(graph.outputs["dict"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return x * 2 if x.sum() > 0 else x", "Unsupported|data-dependent|guard|Dynamic"),
        ("raise ValueError('not today')", "ValueError: not today"),
        ("return x.add_(1)", "effect"),
    ],
)
def test_what_cannot_be_traced_is_said(body: str, problem: str, tmp_path: Path) -> None:
    source = f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs():
    return [torch.randn(3)]
"""
    graph = trace_source(source, tmp_path)
    assert graph.problems and any(word in graph.problems[0] for word in problem.split("|")), graph.problems


def test_numbers_and_shapes_that_change(tmp_path: Path) -> None:
    source = """
import random, torch
class Model(torch.nn.Module):
    def forward(self, x, n):
        return x * n
def get_inputs():
    return [torch.randn(random.randint(2, 90000)), random.random()]
"""
    assert len(trace_source(source, tmp_path).problems) == 2


def test_train_mode(tmp_path: Path) -> None:
    source = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(3, 4)]
"""
    assert {e["buffer"] for e in trace_source(source, tmp_path, "--train").effects} >= {"norm.running_mean"}


ODD_RESULTS: dict[str, Any] = {
    "nested": lambda s, x: {"a": (x + 1, [x * 2, 3]), 7: None, "c": x.sum()},
    "single": lambda s, x: [x * 2],
    "input itself": lambda s, x: (x, x.t(), x[0], x + 1),
    "same twice": lambda s, x: (y := x * 2, y, y.t()),
    "expanded": lambda s, x: x.sum(1, keepdim=True).expand(4, 5),
    "constant": lambda s, x: (torch.zeros(2, 3), torch.full((2,), float("inf")), x + 1),
    "scalar": lambda s, x: x.sum() > 0,
}


@pytest.mark.parametrize("name", ODD_RESULTS)
def test_odd_results(name: str, tmp_path: Path) -> None:
    case, x = Case(ODD_RESULTS[name]), randn(4, 5)
    new, _ = built(case, [x], tmp_path)
    expected, got = case(x), new(x)
    compare(expected, got, case(x.double()))
    assert shared(got, x) == shared(expected, x)


def shared(result: Any, x: torch.Tensor) -> list[int]:
    """For each tensor of a result the first among the input and them that lies in the same memory."""
    memory = [t.untyped_storage().data_ptr() for t in [x, *tree_leaves(result)] if isinstance(t, torch.Tensor)]
    return [memory.index(place) for place in memory]


class Counter(nn.Module):
    """Changes a buffer at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return x * 2 + self.total


def test_buffers_that_a_call_changes(tmp_path: Path) -> None:
    model, x = Counter(), randn(4, 5)
    new, _ = built(model, [x], tmp_path)
    for _ in range(2):
        torch.testing.assert_close(new(x), model(x))
    torch.testing.assert_close(new.get_buffer("total"), model.total)


def test_prepare_follows_the_weights(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()).eval()
    x = randn(2, 2, 8, 8)
    new, written = built(model, [x], tmp_path)
    assert written.folded
    with torch.no_grad():
        for tensor in (*model.parameters(), model[1].running_mean, model[1].running_var):
            tensor.add_(0.7)
        new.load_state_dict(model.state_dict())
        new.prepare()  # type: ignore[operator]
        torch.testing.assert_close(new(x), model(x))


def test_what_has_no_rule_is_left_to_torch(tmp_path: Path) -> None:
    case, x = Case(lambda s, x: (torch.sort(x * 2, dim=1)[0].relu(), torch.fft.rfft(x).abs())), randn(4, 50)
    new, written = built(case, [x], tmp_path)
    assert any("sort" in op for op in written.fallbacks) and any("fft" in op for op in written.fallbacks)
    assert "Left to torch" in written.files["model_new.py"]
    compare(case(x), new(x), case(x.double()))


def test_a_number_that_was_baked_in_is_checked(tmp_path: Path) -> None:
    new, _ = built(Case(lambda s, x, n: x * n), [randn(4), 3.0], tmp_path)
    with pytest.raises(ValueError, match=r"written for inputs_1 = 3.0, not 4.0"):
        new(randn(4), 4.0)


def test_the_text_is_the_same_each_time() -> None:
    """A fresh policy must write what the one before it wrote."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.GroupNorm(2, 4), nn.Softmax(1)).eval()
    graph = traced(model, [randn(2, 2, 8, 8)])
    texts = set()
    for _ in range(4):
        keep = [object() for _ in range(1000)]  # other addresses for the nodes
        texts.add(json.dumps(write_solution(graph, Knobs()).files))
        del keep
    assert len(texts) == 1


def test_other_shapes_are_refused(tmp_path: Path) -> None:
    case = Case(lambda s, x, y: torch.relu(x) * y)
    new, _ = built(case, [randn(4, 6), randn(6)], tmp_path)
    for x, y in [((2, 6), (6,)), ((2, 2, 6), (6,)), ((4, 6), (1, 6)), ((4, 6), ())]:
        with pytest.raises(ValueError, match=r"written for \w+ of shape \(.*\), not \("):
            new(randn(x), randn(y))
