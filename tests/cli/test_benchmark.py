"""The published table is what the published JSON says."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def cpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_cpu", ROOT / "benchmarks" / "cpu.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")  # as for a script: its folder comes first
        spec.loader.exec_module(module)
    return module


def test_the_table_is_rendered_from_the_json(cpu: ModuleType) -> None:
    assert (RESULTS / "cpu.md").read_text() == cpu.render(json.loads((RESULTS / "cpu.json").read_text()))


def test_every_example_has_a_correct_row() -> None:
    rows = json.loads((RESULTS / "cpu.json").read_text())["rows"]
    assert {row["example"] for row in rows} == {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert all(row["verdict"]["status"] == "correct" and row["verdict"]["careful"] for row in rows)


def test_the_geometric_mean_and_its_interval(cpu: ModuleType) -> None:
    one = {"median": 2.0, "low": 2.0 / 1.1, "high": 2.0 * 1.1}
    other = {"median": 8.0, "low": 8.0 / 1.1, "high": 8.0 * 1.1}
    mean, low, high = cpu.geometric_mean([one, other])
    assert mean == pytest.approx(4.0)
    assert high / mean == mean / low == pytest.approx(math.exp(math.log(1.1) / math.sqrt(2)))


def test_a_row_where_nothing_was_found_is_shown(cpu: ModuleType) -> None:
    row = {"example": "x", "about": "", "date": "2026-01-01", "commit": "abc", "search_seconds": 3.0, "verdict": None}
    data = {"command": "c", "rules": "any", "precision": "fp32", "rows": [row]}
    text = cpu.render({**data, "machine": {"processor": "p", "cores": 2, "system": "s"}})
    assert "| `x` | nothing correct |" in text and "0 of 1 are correct." in text
