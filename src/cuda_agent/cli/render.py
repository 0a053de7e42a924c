"""A verdict as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator

from cuda_agent.verdict import Status, Verdict

STYLES = {Status.CORRECT: "bold green", Status.JUDGE_ERROR: "bold yellow", Status.INVALID_TASK: "bold yellow"}


def style(verdict: Verdict) -> str:
    return STYLES.get(verdict.status, "bold red")


def duration(microseconds: float) -> str:
    """Three digits with a unit."""
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e3)):
        if microseconds < limit:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds / 1e6:.3g} s"


def details(verdict: Verdict) -> Iterator[str]:
    """What stands below the headline."""
    yield from verdict.message.splitlines()[1:]
    if not verdict.correct:
        yield f"stopped at: {verdict.stage}"
    times = [("candidate", verdict.time_us.candidate), ("eager", verdict.time_us.eager)]
    times += [("torch.compile", verdict.time_us.compile), ("floor", verdict.time_us.floor)]
    if shown := ", ".join(f"{name} {duration(value)}" for name, value in times if value is not None):
        yield f"time a call: {shown}"
    if verdict.time_us.prepare is not None:
        yield f"prepare(): {duration(verdict.time_us.prepare)}, not counted above"
    yield from (f"failed check: {check.name}: {check.detail}" for check in verdict.checks if check.passed is False)
    yield from (f"flag: {flag}" for flag in verdict.flags)
    if missing := [name for name, active in verdict.guards.items() if not active]:
        yield f"guards that were missing: {', '.join(missing)} (cuda-agent doctor says how to get them)"
    if verdict.seconds:
        largest = sorted(verdict.seconds.items(), key=lambda item: -item[1])
        yield "seconds: " + ", ".join(f"{name} {value:.1f}" for name, value in largest if value >= 0.05)


def identity(verdict: Verdict) -> str:
    parts = [("verdict", verdict.id), ("task", verdict.task), ("solution", verdict.solution)]
    return ", ".join(f"{name} {value}" for name, value in parts if value)
