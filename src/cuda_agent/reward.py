"""Rewards: functions of a verdict and nothing else. All are computed and stored; training picks one by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from cuda_agent.verdict import Interval, Status, Verdict

FASTER = 1.05
"""A solution is faster than a baseline if the median ratio is above this and the whole interval above 1."""


@dataclass(frozen=True)
class PenaltyWeights:
    """Weights of `penalised`; the defaults make any error cost more than the slowest correct answer in practice."""

    latency: float = 1.0
    build: float = 4.0
    wrong: float = 2.0


def faster(interval: Interval | None) -> bool:
    return interval is not None and interval.median > FASTER and interval.low > 1.0


def milestone(verdict: Verdict) -> float:
    """-1 not correct; 1 correct; 2 more than 5 % faster than eager; 3 faster than eager and torch.compile
    (arXiv 2602.24286)."""
    if not verdict.correct:
        return -1.0
    if not faster(verdict.speedup.eager):
        return 1.0
    return 3.0 if faster(verdict.speedup.compile) else 2.0


def relative(verdict: Verdict, baseline: str = "eager") -> float | None:
    """max(0, baseline - t) / baseline; -1 on any error; None where the baseline was not timed."""
    if not verdict.correct:
        return -1.0
    interval: Interval | None = getattr(verdict.speedup, baseline)
    return None if interval is None else max(0.0, 1.0 - 1.0 / interval.median)


def penalised(verdict: Verdict, weights: PenaltyWeights | None = None) -> float | None:
    """-(latency ratio) - build penalty - wrong-result penalty; None where a correct solution was not timed."""
    weights = weights or PenaltyWeights()
    if verdict.status is Status.BUILD_ERROR:
        return -weights.build
    if not verdict.correct:
        return -weights.wrong
    eager = verdict.speedup.eager
    return None if eager is None else -weights.latency / eager.median


def log_speedup(verdict: Verdict) -> float | None:
    """Natural logarithm of the speed-up over eager; -1 on any error."""
    if not verdict.correct:
        return -1.0
    return None if verdict.speedup.eager is None else math.log(verdict.speedup.eager.median)


def roofline(verdict: Verdict) -> float | None:
    """Floor over time, at most 1; -1 on any error; None where either was not measured."""
    if not verdict.correct:
        return -1.0
    floor, time = verdict.time_us.floor, verdict.time_us.candidate
    return None if floor is None or not time else min(1.0, floor / time)


REWARDS: dict[str, Callable[[Verdict], float | None]] = {
    "milestone": milestone,
    "relative": relative,
    "penalised": penalised,
    "log_speedup": log_speedup,
    "roofline": roofline,
}


def all_rewards(verdict: Verdict) -> dict[str, float | None]:
    """Every reward by name; empty for `invalid_task` and `judge_error`, which say nothing about the solution."""
    if verdict.status in (Status.INVALID_TASK, Status.JUDGE_ERROR):
        return {}
    return {name: function(verdict) for name, function in REWARDS.items()}
