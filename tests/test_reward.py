"""The five rewards, at their boundaries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_agent.reward import REWARDS, PenaltyWeights, all_rewards, faster, milestone, penalised, relative, roofline
from cuda_agent.verdict import Interval, Speedup, Status, Times, Verdict

FAILED = [s for s in Status if s not in (Status.CORRECT, Status.INVALID_TASK, Status.JUDGE_ERROR)]
MUCH = Interval(median=2.0, low=1.9, high=2.1)
SAME = Interval(median=1.0, low=0.97, high=1.03)


def verdict(eager: Interval | None = None, compile: Interval | None = None, **fields: object) -> Verdict:
    return Verdict.model_validate(
        {"status": Status.CORRECT, "speedup": Speedup(eager=eager, compile=compile), **fields}
    )


def interval(median: float, low: float, high: float = 9.0) -> Interval:
    return Interval(median=median, low=low, high=high)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (interval(1.05, 1.04), False),
        (interval(1.0500001, 1.04), True),
        (interval(1.2, 1.0), False),
        (interval(1.2, 1.0000001), True),
        (interval(1.2, 0.99), False),
        (interval(0.8, 0.7), False),
        (None, False),
    ],
)
def test_faster_needs_the_median_and_the_interval(ratio: Interval | None, expected: bool) -> None:
    assert faster(ratio) is expected
    assert milestone(verdict(eager=ratio)) == (2.0 if expected else 1.0)
    assert milestone(verdict(eager=MUCH, compile=ratio)) == (3.0 if expected else 2.0)


def test_milestone_needs_eager_for_more() -> None:
    assert milestone(verdict(eager=SAME, compile=MUCH)) == 1.0
    assert milestone(verdict(eager=None, compile=MUCH)) == 1.0


def test_milestone_is_two_at_most_where_compile_is_null() -> None:
    assert milestone(verdict(eager=MUCH, compile=None)) == 2.0


@pytest.mark.parametrize("status", FAILED)
def test_errors(status: Status) -> None:
    """Nothing that a failed verdict may still carry changes its reward."""
    failed = verdict(eager=MUCH, compile=MUCH, status=status, time_us=Times(candidate=1, floor=1))
    rewards = all_rewards(failed)
    assert rewards == {
        "milestone": -1.0,
        "relative": -1.0,
        "penalised": -4.0 if status is Status.BUILD_ERROR else -2.0,
        "log_speedup": -1.0,
        "roofline": -1.0,
    }


@pytest.mark.parametrize("status", [Status.INVALID_TASK, Status.JUDGE_ERROR])
def test_no_reward_where_the_solution_is_not_to_blame(status: Status) -> None:
    assert all_rewards(verdict(eager=MUCH, status=status)) == {}


def test_correct_but_not_timed() -> None:
    """As under the floor of the bandwidth: correct, times null."""
    assert all_rewards(verdict()) == {
        "milestone": 1.0,
        "relative": None,
        "penalised": None,
        "log_speedup": None,
        "roofline": None,
    }


def test_relative() -> None:
    assert relative(verdict(eager=MUCH)) == pytest.approx(0.5)
    assert relative(verdict(eager=interval(0.5, 0.4))) == 0.0
    assert relative(verdict(eager=MUCH, compile=interval(4.0, 3.0)), "compile") == pytest.approx(0.75)
    assert relative(verdict(eager=MUCH), "compile") is None


def test_penalised_weights() -> None:
    weights = PenaltyWeights(latency=2.0, build=7.0, wrong=5.0)
    assert penalised(verdict(eager=MUCH), weights) == pytest.approx(-1.0)
    assert penalised(verdict(status=Status.BUILD_ERROR), weights) == -7.0
    assert penalised(verdict(status=Status.WRONG), weights) == -5.0


@pytest.mark.parametrize(
    ("candidate", "floor", "expected"),
    [(20.0, 5.0, 0.25), (5.0, 5.0, 1.0), (4.0, 5.0, 1.0), (None, 5.0, None), (5.0, None, None)],
)
def test_roofline(candidate: float | None, floor: float | None, expected: float | None) -> None:
    assert roofline(verdict(time_us=Times(candidate=candidate, floor=floor))) == expected


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_faster_solution_never_earns_less(first: float, second: float) -> None:
    slow, fast = (verdict(interval(m, m * 0.99), interval(m, m * 0.99)) for m in sorted((first, second)))
    for name in ("milestone", "relative", "penalised", "log_speedup"):
        low, high = REWARDS[name](slow), REWARDS[name](fast)
        assert low is not None and high is not None and low <= high


def test_log_speedup() -> None:
    assert REWARDS["log_speedup"](verdict(eager=MUCH)) == pytest.approx(math.log(2))
