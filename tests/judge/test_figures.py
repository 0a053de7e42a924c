"""What a verdict says of a measurement: the worker's own clock beside the keeper's, and intervals that stayed wide."""

from __future__ import annotations

import pytest

from cuda_agent.judge.figures import clock
from cuda_agent.judge.timing import Measured, more_pairs_help, too_wide

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


NARROW, WIDE = [0.0, 0.001] * 4, [0.0, 0.2] * 4
"""Logarithms of ratios of eight pairs."""


@pytest.mark.parametrize(
    ("candidate", "compiled", "wide", "helps"),
    [
        (NARROW, NARROW, (), False),
        (WIDE, NARROW, ("eager", "torch.compile"), True),
        (NARROW, WIDE, ("torch.compile",), False),
        (WIDE, WIDE, ("eager", "torch.compile"), True),
        (NARROW, [], (), False),
        ([], [], (), True),
    ],
)
def test_a_careful_measurement_goes_on_only_where_that_narrows_something(
    candidate: list[float], compiled: list[float], wide: tuple[str, ...], helps: bool
) -> None:
    found = Measured(log_ratios=candidate)
    assert too_wide(found, compiled) == wide
    assert more_pairs_help(found, compiled) is helps


def test_two_narrow_intervals_whose_product_is_wide_are_worth_more_pairs() -> None:
    each = [0.0, 0.05] * 4
    found = Measured(log_ratios=each)
    assert too_wide(found, each) == ("torch.compile",)
    assert more_pairs_help(found, each)
