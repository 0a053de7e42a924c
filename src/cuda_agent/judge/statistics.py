"""From times of fresh pairs of workers to a ratio with its interval.

Calls of one process resemble one another more than calls of another process do (where its memory lies, how its threads
fell), by one to several percent. So the unit of the interval is the pair of fresh workers: each gives one logarithm of
a ratio, the median over its rounds, and the interval is Student's over the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cuda_agent.verdict import Interval

CONFIDENCE = 0.95


def t_quantile(freedom: float, p: float = 0.5 + CONFIDENCE / 2) -> float:
    """The quantile of Student's t for any positive number of degrees of freedom, by bisection of its distribution."""
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        if _t_distribution(middle, freedom) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_distribution(t: float, freedom: float) -> float:
    return 1 - 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function by its continued fraction (Lentz; Numerical Recipes, section 6.4)."""
    if x <= 0.0 or x >= 1.0:
        return min(1.0, max(0.0, x))
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    tiny, c = 1e-300, 1.0
    d = 1 / max(1 - (a + b) * x / (a + 1), tiny)
    h = d
    for m in range(1, 300):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d if abs(1 + term * d) > tiny else tiny)
            c = 1 + term / c if abs(1 + term / c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * h / a


def pair_log_ratio(baseline: Sequence[float], candidate: Sequence[float], null_s: float) -> float | None:
    """The median of the logarithms of baseline over candidate, over the rounds of one pair of workers.

    `null_s` is what a call costs that computes nothing. None where most of the candidate's calls cost no more. Of the
    estimators tried on two cores (medians and lower quantiles of each side, paired medians), this one varied least
    between pairs: by 3 to 4 % at 20 rounds of a 5 ms call, against 5 to 7 % for the ratio of the medians.
    """
    b = np.asarray(baseline) - null_s
    c = np.asarray(candidate) - null_s
    good = (b > 0) & (c > 0.05 * null_s)
    if np.count_nonzero(good) <= good.size // 2:
        return None
    return float(np.median(np.log(b[good] / c[good])))


def interval(log_ratios: Sequence[float], *others: Sequence[float]) -> Interval | None:
    """The ratio whose logarithm is the sum of the means of all the groups; None with fewer than two in a group.

    Degrees of freedom of a sum by Welch and Satterthwaite.
    """
    groups = [np.asarray(group, float) for group in (log_ratios, *others)]
    if any(group.size < 2 for group in groups):
        return None
    middle = sum(float(group.mean()) for group in groups)
    shares = [float(group.var(ddof=1)) / group.size for group in groups]
    total = sum(shares)
    if total <= 0:
        return Interval(median=math.exp(middle), low=math.exp(middle), high=math.exp(middle))
    freedom = total**2 / sum(s**2 / (g.size - 1) for s, g in zip(shares, groups, strict=True) if s > 0)
    half = t_quantile(freedom) * math.sqrt(total)
    return Interval(median=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))
