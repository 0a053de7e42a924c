"""What the worker's own clock may say beside the keeper's."""

from __future__ import annotations

import pytest

from cuda_agent.judge.figures import clock
from cuda_agent.judge.timing import Measured

HONEST, HIDDEN, LONGER = (4.5e-3, 4e-3), (9e-3, 1e-3), (1e-3, 4e-3)
"""The keeper's seconds of a call and the worker's."""
NULL_S = 4e-4


def measured(spans: list[tuple[float, float]], loud: float = 0.0, gap_s: float = 5e-4) -> Measured:
    return Measured(spans=spans, gaps=[gap_s] * len(spans), null_s=NULL_S, loud=loud)


@pytest.mark.parametrize("loud", [0.0, 0.9])
def test_work_hidden_in_every_call_is_found_however_loaded_the_machine_is(loud: float) -> None:
    assert clock(measured([HIDDEN] * 40, loud)).passed is False


@pytest.mark.parametrize("loud", [0.0, 0.9])
def test_a_worker_cannot_take_longer_than_the_keeper_saw(loud: float) -> None:
    assert clock(measured([LONGER] * 40, loud)).passed is False


@pytest.mark.parametrize("loud", [0.0, 0.9])
def test_no_clock_at_all(loud: float) -> None:
    assert clock(measured([], loud)).passed is False


@pytest.mark.parametrize("loud", [0.0, 0.9])
def test_what_calling_takes_is_no_contradiction(loud: float) -> None:
    assert clock(measured([HONEST] * 40, loud)).passed is True


def test_calls_that_load_delayed_are_a_doubt_on_a_loaded_machine_only() -> None:
    spans = [HIDDEN] * 30 + [HONEST] * 10
    assert clock(measured(spans, loud=0.9)).passed is None
    assert clock(measured(spans)).passed is False


def test_a_reference_that_is_woken_as_late_explains_it() -> None:
    assert clock(measured([HIDDEN] * 40, gap_s=7e-3)).passed is True
