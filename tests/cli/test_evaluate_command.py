"""`evaluate` from the outside: exit codes, clean JSON, what is stored, and Ctrl-C."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.store import Store
from cuda_agent.verdict import Status, Verdict

Command = Callable[..., subprocess.CompletedProcess[str]]

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.randn(64, 256)]
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
    """task.py, right.py, wrong.py and slow.py, which never returns."""
    (tmp_path / "task.py").write_text(TASK)
    bodies = {"right": "torch.relu(x).mul_(2)", "wrong": "x * 2", "slow": "sum(iter(int, 1))"}
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(SOLUTION.format(body=body))
    (tmp_path / "text.py").write_text("this is no Python\n")
    (tmp_path / "raising.py").write_text(TASK.replace("torch.randn(64, 256)", "missing"))
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_right_solution_ends_with_0_and_is_stored(command: Command, files: Path, environment: dict[str, str]) -> None:
    done = command("evaluate", files / "task.py", files / "right.py", "--json")
    verdict = Verdict.from_json(done.stdout)
    assert (done.returncode, verdict.status, done.stdout.count("\n")) == (0, Status.CORRECT, 1), done.stderr
    assert verdict.speedup.eager and verdict.id and verdict.created
    with Store(Path(environment["CUDA_AGENT_HOME"]) / "store.db") as store:
        assert store.verdict(verdict.id) == verdict
        assert store.task(verdict.task) and store.solution(verdict.solution)


def test_a_wrong_solution_ends_with_1(command: Command, files: Path) -> None:
    done = command("evaluate", files / "task.py", files / "wrong.py", "--rules", "any")
    assert done.returncode == 1 and done.stdout.startswith("wrong:") and "Traceback" not in done.stderr


def test_a_solution_that_is_no_python_ends_with_1(command: Command, files: Path) -> None:
    done = command("evaluate", files / "task.py", files / "text.py", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["status"] == "build_error"


@pytest.mark.parametrize(
    ("task", "solution", "status"),
    [
        ("nothing.py", "right.py", "invalid_task"),
        ("text.py", "right.py", "invalid_task"),
        ("right.py", "right.py", "invalid_task"),
        ("empty", "right.py", "invalid_task"),
        ("raising.py", "right.py", "invalid_task"),
        ("task.py", "nothing.py", "judge_error"),
        ("task.py", "empty", "judge_error"),
    ],
)
def test_unusable_input_ends_with_2(command: Command, files: Path, task: str, solution: str, status: str) -> None:
    done = command("evaluate", files / task, files / solution, "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["status"]) == (2, status) and said["message"]
    assert "Traceback" not in done.stderr


def test_names_and_messages_that_are_no_text(command: Command, files: Path) -> None:
    task = os.fsencode(files) + b"/t\xff.py"
    Path(os.fsdecode(task)).write_text(TASK)
    raising = "(_ for _ in ()).throw(RuntimeError('\\ud800 no text'))"
    (files / "odd.py").write_text(SOLUTION.format(body=raising))
    done = command("evaluate", os.fsdecode(task), files / "odd.py", "--json")
    said = json.loads(done.stdout)
    assert (done.returncode, said["status"]) == (1, "runtime_error") and "? no text" in said["message"], done.stderr


def test_a_solution_that_leaves_is_told_with_what(command: Command, files: Path) -> None:
    (files / "leaving.py").write_text(SOLUTION.format(body="exit(0)"))
    done = command("evaluate", files / "task.py", files / "leaving.py", "--json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (1, "runtime_error")
    assert "SystemExit: 0" in json.loads(done.stdout)["message"]


def test_from_a_folder_that_is_gone(files: Path, environment: dict[str, str]) -> None:
    (files / "gone").mkdir()
    program = Path(sys.executable).with_name("cuda-agent")
    command = f"rmdir ../gone; {program} evaluate {files / 'task.py'} {files / 'right.py'} --json"
    done = subprocess.run(command, shell=True, cwd=files / "gone", env=environment, capture_output=True, text=True)
    assert (done.returncode, json.loads(done.stdout)["status"]) == (0, "correct"), done.stderr


@pytest.mark.parametrize("arguments", [["--json"], []])
@pytest.mark.parametrize("where", ["/dev/full", "&-"])
def test_where_nothing_can_be_written_is_one_line(
    files: Path, environment: dict[str, str], arguments: list[str], where: str
) -> None:
    program = Path(sys.executable).with_name("cuda-agent")
    command = f"{program} evaluate {files / 'task.py'} {files / 'wrong.py'} {' '.join(arguments)} >{where}"
    done = subprocess.run(command, shell=True, env=environment, stderr=subprocess.PIPE, text=True)
    if arguments or where == "/dev/full":
        assert done.returncode == 3 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    else:
        assert done.returncode == 1 and "Traceback" not in done.stderr


def test_an_option_that_this_machine_cannot_follow_ends_with_2(command: Command, files: Path) -> None:
    done = command("evaluate", files / "task.py", files / "right.py", "--device", "cuda")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set(map(int, (task / "children").read_text().split()))
    return found


@pytest.mark.parametrize("seconds", [0.5, 3.0, 7.0])
def test_ctrl_c_ends_with_130_and_leaves_nothing_running(
    files: Path, environment: dict[str, str], seconds: float
) -> None:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans of what we start become our children
    before = _children()
    argv = [sys.executable, "-m", "cuda_agent", "evaluate", files / "task.py", files / "slow.py", "--json"]
    process = subprocess.Popen(list(map(str, argv)), env=environment, stdout=subprocess.PIPE, text=True)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 130 and json.loads(said)["message"] == "interrupted"
    time.sleep(0.5)
    left = _children() - before
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
    assert not {pid for pid in left if Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"}
