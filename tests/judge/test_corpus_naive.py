"""The cases are what they claim to be: a naive check accepts the attacks, a close look by a trusting one the honest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import cases
from corpus.cases import Case
from naive import Checker

TASKS = cases.tasks()
ATTACKS = [case for case in cases.load("attacks") if case.naive != "not run" and not case.dangerous]
HONEST = cases.load("honest")


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    checker = Checker()
    yield checker
    checker.close()


def _marked(case: Case) -> Any:
    return pytest.param(case, id=case.name, marks=[pytest.mark.timing] * (case.naive_ratio is not None))


@pytest.mark.parametrize("case", [_marked(case) for case in ATTACKS])
def test_naive_check_is_fooled(case: Case, checker: Checker, tmp_path: Path) -> None:
    outcome = checker.check("naive", TASKS[case.task], case.solution(), tmp_path, case.naive_order)
    assert outcome.accepted == (case.naive == "accepts"), outcome.output[-2000:]
    if case.naive_ratio is not None:
        assert outcome.ratio is not None and outcome.ratio > case.naive_ratio


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * c.slow) for c in HONEST])
def test_honest_case_is_right(case: Case, checker: Checker, tmp_path: Path) -> None:
    outcome = checker.check(
        "plain", TASKS[case.task], case.solution(), tmp_path, case.mode, case.precision, timeout_s=250
    )
    assert outcome.accepted, outcome.output[-2000:]


def test_there_are_enough() -> None:
    """Attacks that a naive check accepts, and as many honest cases."""
    fooled = [case for case in ATTACKS if case.naive == "accepts"]
    assert len(fooled) >= 34
    assert len(HONEST) >= 34
    assert all(case.task in TASKS and case.about for case in (*cases.load("attacks"), *HONEST))
