"""The interval against synthetic samples whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_agent.judge.statistics import interval, pair_log_ratio, t_quantile


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (10, 2.2281), (30, 2.0423)]
)
def test_quantiles_of_student(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, abs=1e-3)


@pytest.mark.parametrize("pairs", [3, 4, 8])
def test_interval_covers_the_truth_as_often_as_it_says(pairs: int) -> None:
    """Pairs of workers differ by 3 %, whatever their calls say: 95 % of the intervals hold the true ratio."""
    generator = np.random.default_rng(7)
    hits = 0
    for _ in range(2000):
        found = interval(list(generator.normal(math.log(1.3), 0.03, pairs)))
        assert found is not None
        hits += found.low <= 1.3 <= found.high
    assert 0.935 <= hits / 2000 <= 0.965


def test_interval_of_a_product_covers_the_truth() -> None:
    generator = np.random.default_rng(8)
    hits = 0
    for _ in range(2000):
        found = interval(list(generator.normal(0.2, 0.02, 4)), list(generator.normal(-0.1, 0.05, 4)))
        assert found is not None
        hits += found.low <= math.exp(0.1) <= found.high
    assert 0.94 <= hits / 2000 <= 0.985  # Welch's is a little wide for few pairs


@given(st.floats(0.1, 10), st.floats(1e-5, 1e-1))
def test_ratio_of_a_pair_is_that_of_the_times_less_the_empty_call(ratio: float, seconds: float) -> None:
    null = 3e-5
    found = pair_log_ratio([seconds * ratio + null] * 9, [seconds + null] * 9, null)
    assert found is not None
    assert found == pytest.approx(math.log(ratio), abs=1e-6)


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    assert interval([0.1]) is None
    assert pair_log_ratio([1.0], [1e-4], 1e-4) is None  # no slower than an empty call
