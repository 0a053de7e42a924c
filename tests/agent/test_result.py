"""A solution becomes a module of this process, with the weights of the live one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from scripted import SOURCE
from test_optimize import ENTRY, KERNEL
from torch import nn

from cuda_agent.agent.result import Result
from cuda_agent.agent.trajectory import Trajectory
from cuda_agent.backends import export
from cuda_agent.errors import SolutionError
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict


def result(folder: Path, task: Task, solution: Solution) -> Result:
    export(solution.files, folder / "best")
    return Result(folder.name, task, folder, solution, Verdict(status=Status.CORRECT), Trajectory())


def of_module(folder: Path, module: nn.Module, x: torch.Tensor) -> Result:
    task = Task.from_module(module, x)
    source = task.source.replace("class Model(", "class ModelNew(")
    return result(folder, task, Solution.from_source(source))


def test_a_live_module(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU())
    nn.init.normal_(module[1].weight)
    x, before = torch.randn(4, 8), (list(sys.path), sys.modules.get("model"))
    fast = of_module(tmp_path, module, x).load(module)
    assert torch.allclose(fast(x), module(x))
    assert fast.training
    assert (list(sys.path), sys.modules.get("model")) == before
    half = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU()).bfloat16().eval()
    made = of_module(tmp_path / "half", half, x.bfloat16()).load(half)
    assert made(x.bfloat16()).dtype is torch.bfloat16 and not made.training


def test_weights_that_do_not_fit(tmp_path: Path) -> None:
    x = torch.randn(4, 8)
    found = of_module(tmp_path, nn.Linear(8, 16), x)
    with pytest.raises(SolutionError, match="do not fit ModelNew"):
        found.load(nn.Linear(8, 17))


def test_kernels_and_modules_of_the_same_names(tmp_path: Path) -> None:
    """Two results whose helpers have the same name as each other and as one that is loaded already."""
    task = Task.from_source(SOURCE)
    outputs, x = [], torch.ones(3, 256)
    for number in (1, 2):
        entry = ENTRY.replace("return out", "return out + helper.SHIFT").replace(
            "import torch\n", "import helper\nimport torch\n", 1
        )
        files = {"model_new.py": entry, "helper.py": f"SHIFT = {number}\n", "kernels/fused.cpp": KERNEL}
        made = result(tmp_path / f"run-{number}", task, Solution(files)).load()
        outputs.append((made(x) - torch.relu(x * made.weight) - 1.0).detach())
    assert [float(output.mean().round(decimals=4)) for output in outputs] == [1.0, 2.0]
    assert "helper" not in sys.modules


def test_prepare_is_called_with_the_weights(tmp_path: Path) -> None:
    task = Task.from_source(SOURCE)
    source = SOURCE.replace("class Model(", "class ModelNew(").replace(
        "    def forward", "    def prepare(self):\n        self.seen = self.weight.sum().item()\n\n    def forward", 1
    )
    module = nn.Module()
    module.weight = nn.Parameter(torch.full((256,), 2.0))
    made = result(tmp_path, task, Solution.from_source(source)).load(module)
    assert made.seen == 512.0


def test_a_folder_that_was_moved(tmp_path: Path) -> None:
    found = of_module(tmp_path / "a", nn.Linear(8, 16), torch.randn(4, 8))
    (tmp_path / "a").rename(tmp_path / "b")
    with pytest.raises(SolutionError, match="was the result folder moved"):
        found.load()
