"""`optimize` from the outside: what it prints, what it leaves behind, and being stopped half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.store import Store
from cuda_agent.verdict import Verdict

Command = Callable[..., subprocess.CompletedProcess[str]]

TASK = '''"""Two elementwise steps."""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + 1
def get_inputs():
    return [torch.randn(256, 1024)]
'''


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "small.py").write_text(TASK)
    return tmp_path / "small.py"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "no such task: missing.py"),
        (["missing:Block"], "missing"),
        ([], "nothing to optimize"),
        (["--resume"], "no run 'last' to go on with"),
        (["--resume", "--rules", "kernels"], "--rules cannot be changed with --resume"),
        (["{task}", "--policy", "nobody"], "no policy 'nobody'"),
        (["{task}", "--backend", "fortran"], "no backend 'fortran'; there are: cpp, cuda, triton"),
        (["{task}", "--backend", "cuda"], "policy 'template' writes kernels with cpp only, none with 'cuda'"),
        (["{task}", "--backend", "triton"], "policy 'template' writes kernels with cpp only, none with 'triton'"),
        (["{task}", "--precision", "tf32"], "tf32"),
        (["{task}", "--store", "/dev/null/store.db"], "--store"),
    ],
)
def test_what_cannot_be_done_is_one_line(command: Command, task: Path, arguments: list[str], message: str) -> None:
    done = command("optimize", *[argument.format(task=task) for argument in arguments])
    assert done.returncode in (2, 3) and message in done.stderr, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_run_from_its_start_to_its_folder(command: Command, task: Path, environment: dict[str, str]) -> None:
    done = command("optimize", task, "--seconds", "25", "--out", task.parent / "results")
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (task.parent / "results").iterdir()
    verdict = Verdict.from_json((folder / "verdict.json").read_text())
    assert done.stdout.startswith(f"small: run {folder.name}") and verdict.headline() in done.stdout
    assert verdict.correct and verdict.careful
    shown = command("show", folder.name).stdout
    assert "finished" in shown and verdict.id in shown
    assert command("show", folder).stdout.startswith(verdict.headline())
    with Store(Path(environment["CUDA_AGENT_HOME"]) / "store.db") as store:
        assert store.verdict(verdict.id) == verdict


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on_and_the_run_does(command: Command, task: Path, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "cuda_agent", "optimize", str(task), "--seconds", "120"]
    process = subprocess.Popen(
        argv, cwd=task.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert any(line.endswith("<- first result\n") for line in process.stdout)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    (folder,) = (task.parent / "runs").iterdir()
    assert process.returncode == 130
    assert said == f"interrupted: go on with it: cuda-agent optimize --resume {folder.name}\n"
    assert f"{folder.name}  optimize interrupted" in command("show").stdout
    done = command("optimize", "--resume", folder.name, "--seconds", "30")
    assert done.returncode == 0 and f"going on with run {folder.name}" in done.stdout
    assert "first result" not in done.stdout
