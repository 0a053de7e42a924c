"""Writes a solution that builds and runs alone: its files, its signatures and the runtime, as `cuda_agent/`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import cuda_agent.runtime
from cuda_agent.backends.base import backend_for
from cuda_agent.runtime import CUDA_SUFFIXES, BuildCache, beside
from cuda_agent.runtime.loader import CPP_SUFFIXES
from cuda_agent.sandbox import Runner, run_plain
from cuda_agent.sources import imports

_INIT = '"""The part of cuda-agent that a solution needs to build and call its kernels."""\n'


def export(
    files: Mapping[str, str], folder: Path, *, cache: BuildCache | None = None, runner: Runner = run_plain
) -> None:
    """Writes `files` (relative path → text) below `folder`, so that `import model_new` works there with torch and g++,
    or Triton for kernels that need it.

    Kernels are built (with `runner`) to learn their signatures. Raises BuildError or MachineError where one does not.
    """
    cache = cache or BuildCache.from_environment()
    kernels = [name for name in files if name.startswith("kernels/") and name.endswith((*CPP_SUFFIXES, *CUDA_SUFFIXES))]
    with tempfile.TemporaryDirectory(prefix="cuda-agent-") as scratch:
        _write(files, Path(scratch))
        for kernel in kernels:
            backend_for(kernel).build(Path(scratch), kernel, cache=cache, runner=runner)
        _write(files, folder)
        for kernel in kernels:
            shutil.copyfile(beside(Path(scratch, kernel)), beside(folder / kernel))
    if kernels or any(name.endswith(".py") and imports(text, "cuda_agent") for name, text in files.items()):
        _write_runtime(folder / "cuda_agent")


def _write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _write_runtime(package: Path) -> None:
    source = Path(cuda_agent.runtime.__file__).parent
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(_INIT, encoding="utf-8")
    shutil.rmtree(package / "runtime", ignore_errors=True)
    shutil.copytree(source, package / "runtime", ignore=shutil.ignore_patterns("__pycache__"))
