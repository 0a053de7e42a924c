"""Kernel folders, each with a build cache of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cuda_agent.runtime import Kernels, load_kernels

Loader = Callable[..., Kernels]


@pytest.fixture(autouse=True)
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    monkeypatch.setenv("CUDA_AGENT_CACHE", str(root))
    monkeypatch.delenv("CUDA_AGENT_PREBUILT", raising=False)
    return root


@pytest.fixture
def load(tmp_path: Path) -> Loader:
    """Writes a source (and headers beside it) to a solution's folder and loads it."""

    def write_and_load(source: str, name: str = "x.cpp", **headers: str) -> Kernels:
        folder = tmp_path / "solution" / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / "model_new.py").touch()
        (folder / name).write_text(textwrap.dedent(source))
        for header, text in headers.items():
            (folder / f"{header}.h").write_text(text)
        return load_kernels(folder / name)

    return write_and_load


def python(code: str, *, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh interpreter."""
    argv = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(argv, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=120)
