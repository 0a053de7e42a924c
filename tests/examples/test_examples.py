"""The examples are good tasks: small, quick, and their outputs follow every input and every weight."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_agent.judge.task_module import check_output, load, make_inputs, make_model
from cuda_agent.judge.task_values import leaves
from cuda_agent.task import Task

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
MAX_BYTES = 64 << 20


@pytest.fixture
def loaded(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr("sys.path", [*sys.path])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # quicker where other tests use the cores too
    Task.from_file(request.param).write(tmp_path)
    yield load(tmp_path)
    torch.set_num_threads(threads)
    sys.modules.pop("model", None)


def test_there_are_enough_of_each() -> None:
    titles = {path.stem: ast.get_docstring(ast.parse(path.read_text())) or "" for path in EXAMPLES}
    assert len(titles) >= 18
    assert all(title.endswith(".") and "\n" not in title for title in titles.values())
    assert sum("the computation of KernelBench level" in title for title in titles.values()) >= 8
    assert len({Task.from_file(path).id for path in EXAMPLES}) == len(EXAMPLES)


def outputs(model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [torch.as_tensor(leaf).clone() for leaf in leaves(check_output(model(*inputs)))]


def changes(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    """Some output differs by far more than rounding, relative to its size."""
    pairs = [(a.double(), b.double()) for a, b in zip(first, second, strict=True)]
    return any(float((a - b).abs().mean()) > 1e-3 * float(a.square().mean().sqrt()) for a, b in pairs)


def changed(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value + 1.5
    return value.flip(0) if value.dtype is torch.bool else value * (torch.rand(value.shape) + 0.5)


@pytest.mark.parametrize("loaded", EXAMPLES, ids=lambda path: path.stem, indirect=True)
def test_outputs_follow_every_input_and_every_weight(loaded: Any) -> None:
    model, inputs = make_model(loaded, 0).eval(), make_inputs(loaded, 0)
    first = outputs(model, inputs)
    tensors = [leaf for leaf in [*leaves(inputs), *first, *model.parameters()] if isinstance(leaf, torch.Tensor)]
    assert sum(tensor.nbytes for tensor in tensors) <= MAX_BYTES
    assert all(bool(torch.isfinite(output).all()) for output in first)
    second = outputs(model, make_inputs(loaded, 1))
    assert not changes(first, first) and all(changes([a], [b]) for a, b in zip(first, second, strict=True))
    for index in range(len(inputs)):
        other = [*inputs[:index], changed(inputs[index]), *inputs[index + 1 :]]
        assert changes(first, outputs(model, other)), f"input {index}"
    for name, parameter in model.named_parameters():
        before = parameter.detach().clone()
        parameter.data.add_(torch.randn_like(parameter) * (before.std(unbiased=False) + 0.1))
        assert changes(first, outputs(model, inputs)), name
        parameter.data.copy_(before)
