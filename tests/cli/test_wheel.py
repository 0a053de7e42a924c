"""The wheel has everything that the commands need: it is built, installed and used far from this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Environment = tuple[Path, dict[str, str]]


def _run(argv: list[str | Path], cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(list(map(str, argv)), cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    _run([sys.executable, "-m", "pip", "wheel", ".", *options, "-w", "dist"], source)
    return next((source / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Environment]:
    """Another virtual environment with the wheel in it; its other packages are hard links to those of this one."""
    folder = ROOT / ".whl" / str(os.getpid())
    folder.parent.mkdir(exist_ok=True)
    try:
        _run(["cp", "-al", sys.prefix, folder], ROOT)
        python = folder / "bin" / "python"
        options = ["--no-deps", "--no-index", "--force-reinstall", "--disable-pip-version-check"]
        _run([python, "-m", "pip", "install", *options, wheel], folder)
        home = folder / "home"
        yield python, {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "cuda_agent"
    files = {str(file.relative_to(ROOT / "src")) for file in package.rglob("*") if file.is_file()}
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in files if "__pycache__" not in name} <= packed


def test_the_commands_start_from_the_wheel(installed: Environment, tmp_path: Path) -> None:
    python, env = installed
    where = _run([python, "-c", "import cuda_agent; print(cuda_agent.__file__)"], tmp_path, env)
    assert where.startswith(str(python.parent.parent))
    assert _run([python, "-m", "cuda_agent", "optimize", "--help"], tmp_path, env).startswith("Usage:")
    assert "optimize and evaluate work here" in _run([python, "-m", "cuda_agent", "doctor"], tmp_path, env)
    assert (python.parent.parent / "home/.local/share/cuda-agent/store.db").is_file()


@pytest.mark.slow
def test_optimize_works_from_the_wheel(installed: Environment, tmp_path: Path) -> None:
    python, env = installed
    shutil.copy(ROOT / "examples" / "rmsnorm_gelu.py", tmp_path)
    argv: list[str | Path] = [python, "-m", "cuda_agent", "optimize", "rmsnorm_gelu.py", "--seconds", "60"]
    said = _run(argv, tmp_path, env)
    (run,) = (tmp_path / "runs").iterdir()
    assert "correct: " in said and (run / "report.md").read_text().startswith("# rmsnorm_gelu")
    assert {"report.md", "verdict.json", "best", "example.py"} <= {path.name for path in run.iterdir()}
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "bare")}
    compared = _run([python, "example.py"], run, bare)
    assert "largest difference" in compared
