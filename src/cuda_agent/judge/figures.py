"""From a measurement to what a verdict says of it: ratios with intervals, times, the worker's own clock, and doubts."""

from __future__ import annotations

import os

import numpy as np

from cuda_agent.judge import timing
from cuda_agent.judge.prepared import Prepared
from cuda_agent.verdict import Check, Interval, Speedup, Times

SURPRISING = 50.0
"""A speed-up above this is flagged for a person."""


def figures(
    measured: timing.Measured, compiled: timing.Compiled, prepared: Prepared
) -> tuple[Speedup, Times, list[str]]:
    """Ratios, times and the doubts about them."""
    eager = measured.eager
    times = _times(measured, compiled)
    floor = timing.floor_s(prepared, os.cpu_count() or 1)
    if floor is not None:
        times = times.model_copy(update={"floor": floor * 1e6})
        if times.candidate is not None and times.candidate < 0.9 * floor * 1e6:
            flag = "below_floor: faster than its data can be read; no measurement"
            return Speedup(), Times(floor=floor * 1e6), [flag]
    speedup = Speedup(eager=eager, compile=measured.compiled(compiled.log_ratios) if eager else None)
    return speedup, times, _doubts(measured, eager, compiled)


def clock(measured: timing.Measured) -> Check:
    """Whether the worker's own time agrees with the keeper's, of which it must be a part.

    Waking takes longer on a busy machine, for the reference too, so its gap is allowed for. Load falls upon some calls,
    hidden work upon all: where the machine was loaded, only what even the quickest tenth of the calls hides is a
    contradiction, and `passed` is None where no more than the median call contradicts.
    """
    if not measured.spans:
        return Check(name="clock", passed=False, detail="its worker hides its own clock", source="claimed")
    own, claimed = np.asarray(measured.spans).T
    usual = max(measured.null_s, float(np.median(measured.gaps)) if measured.gaps else 0.0)
    limit = usual + max(1e-3, 0.5 * float(np.median(own)))
    typical, least = np.quantile(own - claimed, (0.5, 0.1))
    detail = f"the worker's own clock says {np.median(claimed) * 1e6:.0f} us a call, the keeper's "
    detail += f"{np.median(own) * 1e6:.0f} us, of which calling takes {usual * 1e6:.0f} us"
    passed: bool | None = float(np.mean(claimed > own + 1e-4)) < 0.5
    if passed and typical >= limit:
        passed = None if measured.loaded and least < limit else False
    return Check(name="clock", passed=passed, detail=detail, source="claimed")


def _times(measured: timing.Measured, compiled: timing.Compiled) -> Times:
    eager_us = float(np.median(measured.eager_s)) * 1e6
    ratio = float(np.exp(np.mean(compiled.log_ratios))) if compiled.log_ratios else None
    return Times(
        candidate=float(np.median(measured.candidate_s)) * 1e6,
        eager=eager_us,
        compile=eager_us * ratio if ratio is not None else None,
        prepare=measured.prepare_s * 1e6 if measured.prepare_s is not None else None,
    )


def _doubts(measured: timing.Measured, eager: Interval | None, compiled: timing.Compiled) -> list[str]:
    flags = []
    if eager is None:
        flags.append("too fast to time: a call costs no more than an empty one")
    elif eager.median > SURPRISING:
        flags.append(f"a very large speed-up ({eager.median:.0f}x): look at it")
    if float(np.median(measured.eager_s)) < timing.TOO_FAST_S:
        flags.append("the reference takes less than 100 us: calling it costs as much as what it computes")
    if measured.loaded:
        flags.append(f"loaded machine: something else ran in {measured.loud:.0%} of the rounds")
    for name in measured.too_wide:
        flags.append(f"the interval over {name} did not get narrow enough in the time allowed: the machine is too loud")
    if compiled.why:
        flags.append(f"no torch.compile baseline: {compiled.why}")
    return flags
