"""The problems of KernelBench load as tasks. Needs a checkout: KERNELBENCH=path/to/KernelBench/KernelBench."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cuda_agent.sandbox import SandboxedRunner
from cuda_agent.task import Task

ROOT = Path(os.environ.get("KERNELBENCH", ""))
LIMIT_S = 120

pytestmark = [
    pytest.mark.skipif(
        not os.environ.get("KERNELBENCH"), reason="KERNELBENCH names no folder with KernelBench's levels"
    ),
    pytest.mark.slow,
]


def described(levels: list[int], folder: Path) -> dict[str, dict[str, Any]]:
    """What `task_module` says about each problem, by `level/name`."""
    for level in levels:
        for path in sorted((ROOT / f"level{level}").glob("*.py")):
            Task.from_file(path).write(folder / f"level{level}" / path.stem)
    folders = sorted(str(path.parent.relative_to(folder)) for path in folder.glob("*/*/model.py"))
    argv = [sys.executable, "-m", "cuda_agent.judge.task_module", *folders]
    finished = SandboxedRunner()(argv, cwd=folder, timeout_s=2 * LIMIT_S)
    assert finished.returncode == 0, finished.stderr
    rows = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [row["folder"] for row in rows] == folders
    return {row["folder"]: row for row in rows}


def test_levels_1_to_3_load_within_two_minutes(tmp_path: Path) -> None:
    start = time.monotonic()
    rows = described([1, 2, 3], tmp_path)
    seconds = time.monotonic() - start
    assert len(rows) == 250
    wrong = {name: row["error"] for name, row in rows.items() if "error" in row}
    if importlib.util.find_spec("einops") is None:
        missing = [name for name, error in wrong.items() if "needs the package 'einops'" in error]
        wrong = {name: error for name, error in wrong.items() if name not in missing}
        assert len(missing) == 2, missing
    assert not wrong
    assert seconds < LIMIT_S
    on_cpu = {name: row.get("why") for name, row in rows.items() if row.get("on") == "cpu" or not row.get("forward")}
    print(f"{len(rows)} problems in {seconds:.0f} s; not wholly on the meta device: {on_cpu}")


def test_level_4_says_which_package_is_missing(tmp_path: Path) -> None:
    if importlib.util.find_spec("transformers"):
        pytest.skip("transformers is installed")
    rows = described([4], tmp_path)
    assert len(rows) == 20
    assert {row["error"] for row in rows.values()} == {"needs the package 'transformers': pip install transformers"}
