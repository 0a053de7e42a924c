"""The installed command, run as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A home, a store and a cache of the test's own."""
    places = {"HOME": tmp_path / "home", "CUDA_AGENT_HOME": tmp_path / "data", "CUDA_AGENT_CACHE": tmp_path / "cache"}
    return {**os.environ, **{name: str(place) for name, place in places.items()}, "COLUMNS": "80"}


@pytest.fixture
def command(tmp_path: Path, environment: dict[str, str]) -> Command:
    """`command("show", "x")` runs `cuda-agent show x` in an empty folder."""
    program = Path(sys.executable).with_name("cuda-agent")
    folder = tmp_path / "folder"
    folder.mkdir()

    def run(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        argv = [str(program), *map(str, arguments)]
        settings = {**environment, **more}
        return subprocess.run(argv, cwd=folder, env=settings, capture_output=True, text=True, timeout=120)

    return run
