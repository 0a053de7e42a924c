"""Outputs of timed calls beside the reference's own on the same inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_expected import value

from cuda_agent.judge.expected import expect
from cuda_agent.judge.prepared import Sample
from cuda_agent.judge.rounds import timed_mismatch
from cuda_agent.judge.values import Spec, Value

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((64, 32)).astype(np.float32)
N = RANDOM.integers(0, 1000, 512)


def sample(*outputs: np.ndarray[Any, Any]) -> Sample:
    right = value(*outputs)
    return Sample("seed 0", right, 0, expect([right], None, ()))


def test_strides_are_free() -> None:
    turned = np.ascontiguousarray(X.T)
    got = Value(["t", 0], (Spec("float32", X.shape, (1, 64), X.nbytes),), (np.frombuffer(turned.tobytes(), np.uint8),))
    assert timed_mismatch(sample(X), value(X), got) is None
    flat = N.reshape(16, 32)
    turned = np.ascontiguousarray(flat.T)
    got = Value(["t", 0], (Spec("int64", (16, 32), (1, 16), N.nbytes),), (np.frombuffer(turned.tobytes(), np.uint8),))
    assert timed_mismatch(sample(flat), value(flat), got) is None


@pytest.mark.parametrize("count", [1, 2, 8, 512])
def test_ties_may_swap_a_few_integers_but_old_answers_are_found(count: int) -> None:
    right, swapped = N[:count], N[:count].copy()
    swapped[: min(8, count // 4)] += 1
    assert timed_mismatch(sample(right), value(right), value(swapped)) is None
    assert timed_mismatch(sample(right), value(right), value(right + 1)) is not None


def test_old_floats_are_found() -> None:
    other = RANDOM.standard_normal(X.shape).astype(np.float32)
    assert timed_mismatch(sample(X), value(X), value(X * np.float32(1 + 1e-7))) is None
    assert timed_mismatch(sample(X), value(X), value(other)) is not None
    part = X.copy()
    part[:1] = other[:1]
    assert timed_mismatch(sample(X), value(X), value(part)) is not None
