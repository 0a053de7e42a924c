"""compile, verify, profile: the verbs that ask the judge about the workspace's solution.

Each answers with what a writer needs to read, then with one line `VERDICT {json}` for programs: a verdict without the
parts that say nothing about the solution (device, versions, guards, checks that passed); the store holds the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import Field

from cuda_agent.agent.tools.base import Arguments, Context, Observation, Tool
from cuda_agent.solution import Solution
from cuda_agent.verdict import Interval, Verdict

_UNTOLD = {"device", "versions", "guards", "provenance", "profile"}
MAX_MESSAGE = 400
LOOK_S = 60.0
"""With less time left no kernels are looked into."""


class Nothing(Arguments):
    """No arguments."""


def compile_(arguments: Nothing, context: Context) -> Observation:
    return _ask("compile", context, lambda solution: context.judge.build(solution))


def verify(arguments: Nothing, context: Context) -> Observation:
    return _ask("verify", context, lambda solution: _evaluate(context, solution, measure=False))


class Wanted(Arguments):
    kernels: bool = Field(False, description="Also where the time goes, kernel by kernel, and why. Takes a while.")


def profile(arguments: Wanted, context: Context) -> Observation:
    kernels = arguments.kernels
    return _ask("profile", context, lambda solution: _evaluate(context, solution, measure=True), kernels)


def _evaluate(context: Context, solution: Solution, measure: bool) -> Verdict:
    settings = replace(context.settings, measure=measure)
    return context.judge.evaluate(context.task, solution, settings, run=context.run)


def _ask(verb: str, context: Context, question: Callable[[Solution], Verdict], kernels: bool = False) -> Observation:
    verdict = context.recorded
    words: list[str] = []
    if verdict is None:
        solution = context.workspace.solution()
        verdict = context.record(verb, question(solution), solution)
        words = _kernels(context, solution) if kernels and verdict.correct else []
    return Observation("\n".join([describe(verb, verdict), *words, verdict_line(verdict)]))


def _kernels(context: Context, solution: Solution) -> list[str]:
    """The slowest kernels, and with counters what bounds them and what to try."""
    if context.seconds_left < LOOK_S:
        return [f"no profile: less than {LOOK_S:.0f} s are left"]
    from cuda_agent.profiling import try_words

    return try_words(context.judge, context.task, solution, context.settings)


def describe(verb: str, verdict: Verdict) -> str:
    """What a person or a model reads first: the outcome, the times, what failed, doubts."""
    lines = [_outcome(verb, verdict)]
    if verdict.message and not verdict.correct:
        lines.append(verdict.message)
    lines += _times(verdict)
    lines += [f"failed check {check.name}: {check.detail}" for check in verdict.checks if check.passed is False]
    if verdict.flags:
        lines.append(f"doubts: {'; '.join(verdict.flags)}")
    return "\n".join(lines)


def _outcome(verb: str, verdict: Verdict) -> str:
    if not verdict.correct:
        return f"{verdict.status.value} (stage {verdict.stage})"
    if verb == "compile":
        return "it builds"
    return "correct; not timed: use profile" if verb == "verify" else verdict.headline()


def _times(verdict: Verdict) -> list[str]:
    times = verdict.time_us
    if times.candidate is None:
        return []
    rows = [f"{'yours':<14}{times.candidate:>12.1f} us"]
    for label, time, ratio in (
        ("eager", times.eager, verdict.speedup.eager),
        ("torch.compile", times.compile, verdict.speedup.compile),
    ):
        rows.append(f"{label:<14}" + ("not measured" if time is None else f"{time:>12.1f} us  {_ratio(ratio)}"))
    if times.floor is not None:
        rows.append(
            f"{'memory floor':<14}{times.floor:>12.1f} us  (yours takes {times.candidate / times.floor:.1f} of it)"
        )
    return rows


def _ratio(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.median:.3f} times yours [{interval.low:.3f}, {interval.high:.3f}]"


def verdict_line(verdict: Verdict) -> str:
    """`VERDICT {json}` on one line; `Verdict.from_json` reads the JSON."""
    short: dict[str, Any] = {
        "message": verdict.message[:MAX_MESSAGE],
        "checks": [check for check in verdict.checks if check.passed is False],
    }
    slim = verdict.model_copy(update=short)
    return "VERDICT " + slim.model_dump_json(by_alias=True, exclude=_UNTOLD, exclude_defaults=True)


JUDGING: list[Tool[Any]] = [
    Tool("compile", "Build the kernels. Answers with the compiler's messages.", Nothing, compile_, {}),
    Tool("verify", "Build and check the results against the reference; no times. Quick.", Nothing, verify, {}),
    Tool("profile", "Build, check and time against eager and torch.compile. Decides who wins.", Wanted, profile, {}),
]
