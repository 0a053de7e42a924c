"""Triton solutions from the outside: what `evaluate` and `build` print, and what they say where Triton is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import cuda_agent

Command = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLES = Path(__file__).parents[2] / "examples"
SOLUTION = EXAMPLES / "solutions/softmax_bias_scale_triton"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
@pytest.mark.slow
def test_the_example_is_right_and_not_timed(command: Command) -> None:
    done = command("evaluate", EXAMPLES / "softmax_bias_scale.py", SOLUTION, "--rules", "kernels", "--json")
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["status"], verdict["rewards"]["milestone"]) == (0, "correct", 1.0), done.stdout
    assert verdict["speedup"] == {"eager": None, "compile": None} and set(verdict["time_us"].values()) == {None}
    assert any("interpreted" in flag for flag in verdict["flags"])


@needs_triton
def test_build_lists_the_kernels(command: Command) -> None:
    done = command("build", SOLUTION)
    listed = "biased_softmax(scores, bias, out, rows, width, scale, ROWS, BLOCK)"
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"kernels/softmax.py: imports; compiled by its first call; {listed}",
        "model_new.py: imports; compiled by its first call; no kernel",
    ]


@needs_triton
def test_build_says_what_fails_and_where(command: Command, tmp_path: Path) -> None:
    kernels = tmp_path / "solution/kernels"
    kernels.mkdir(parents=True)
    (kernels / "x.py").write_text("import triton\n\nmissing\n")
    (kernels / "helper.py").write_text("this is no Python and imports nothing")
    done = command("build", tmp_path / "solution")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "kernels/x.py:3: NameError: name 'missing' is not defined\n"


@pytest.fixture
def without_triton(tmp_path: Path) -> Path:
    """The installed packages, as links, but for Triton."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for found in Path(torch.__file__).parents[1].iterdir():
        if not found.name.startswith("triton"):
            (packages / found.name).symlink_to(found)
    return packages


@pytest.mark.parametrize("verb", ["evaluate", "build"])
def test_where_triton_is_missing_is_one_line(
    without_triton: Path, environment: dict[str, str], tmp_path: Path, verb: str
) -> None:
    own = Path(cuda_agent.__file__).parents[1]
    arguments = [str(SOLUTION)] if verb == "build" else [str(EXAMPLES / "softmax_bias_scale.py"), str(SOLUTION)]
    # -S: without the folder of the installed packages
    argv = [sys.executable, "-S", "-m", "cuda_agent", verb, *arguments]
    places = {**environment, "PYTHONPATH": os.pathsep.join([str(own), str(without_triton)])}
    done = subprocess.run(argv, cwd=tmp_path, env=places, capture_output=True, text=True, timeout=120)
    said = done.stderr if verb == "build" else done.stdout
    assert done.returncode == 3 and "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert "Triton is not installed here; run: pip install 'cuda-agent[triton]'" in said.splitlines()[0]


@needs_triton
def test_doctor_knows_it(command: Command) -> None:
    import triton

    line = next(line for line in command("doctor").stdout.splitlines() if "triton" in line)
    assert triton.__version__ in line
