"""`profile` from the outside: its exit codes and its JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.profiling import Profile

Command = Callable[..., subprocess.CompletedProcess[str]]

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.randn(512, 1024)]
"""
SOLUTION = """
import torch
print("noise on stdout")
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {body}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "right.py").write_text(SOLUTION.format(body="torch.relu(x).mul_(2)"))
    (tmp_path / "raises.py").write_text(SOLUTION.format(body="y"))
    return tmp_path


def test_a_profile_as_text_and_as_json(command: Command, files: Path) -> None:
    done = command("profile", files / "task.py", files / "right.py")
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    for words in ("one call: solution", "aten::mul_", "note: hardware counters need a GPU"):
        assert words in done.stdout
    done = command("profile", files / "task.py", files / "right.py", "--json")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert Profile.model_validate_json(done.stdout).kernels


@pytest.mark.parametrize(
    ("task", "solution", "options", "code", "words"),
    [
        ("task.py", "raises.py", (), 1, "NameError"),
        ("task.py", "nothing.py", (), 2, "no such solution"),
        ("nothing.py", "right.py", (), 2, "no such task"),
        ("task.py", "right.py", ("--device", "tpu"), 2, "cpu, cuda or cuda:N"),
    ],
)
def test_what_cannot_be_profiled(
    command: Command, files: Path, task: str, solution: str, options: tuple[str, ...], code: int, words: str
) -> None:
    done = command("profile", files / task, files / solution, *options, "--json")
    assert done.returncode == code and words in json.loads(done.stdout)["error"]
    assert "Traceback" not in done.stderr


def test_sanitize_is_a_check_of_the_verdict(command: Command, files: Path) -> None:
    done = command("evaluate", files / "task.py", files / "right.py", "--sanitize", "--json")
    verdict = json.loads(done.stdout)
    assert done.returncode == 0 and [c["passed"] for c in verdict["checks"] if "sanitize" in c["name"]] == [None]
