"""report.md and example.py of a result folder: what was found, in plain words."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any

from cuda_agent.agent.result import BASELINES, Result
from cuda_agent.agent.templates import render
from cuda_agent.agent.trajectory import Judged, Trajectory
from cuda_agent.verdict import Interval, Verdict

_ENDINGS = {
    "done": "It ended when the policy had nothing more to try.",
    "stuck": "It ended because the policy's last answers led nowhere.",
    "turns": "It ended because the turns were used up.",
    "seconds": "It ended because the time was used up.",
    "evaluations": "It ended because the evaluations were used up.",
    "tokens": "It ended because the tokens were used up.",
    "policy_failed": "It ended because the policy failed",
    "invalid_task": "It ended because the task cannot be judged",
    None: "It was interrupted; `cuda-agent optimize --resume` goes on with it.",
}


def report(result: Result, policy: str) -> str:
    """The text of report.md."""
    verdict, trajectory = result.verdict, result.trajectory
    about, forward = _describe(result.task.source)
    detail = f": {trajectory.end_detail}" if trajectory.end_detail else ""
    return render(
        "report.md.j2",
        result=result,
        task=result.task,
        verdict=verdict,
        trajectory=trajectory,
        policy=policy,
        verdictline=_summary(result),
        doubts=_doubts(result),
        about=about,
        forward=forward,
        times=_times(verdict) if verdict else [],
        duration=duration,
        native=result.solution is not None and set(result.solution.kernels) > set(result.solution.triton),
        triton=result.solution is not None and bool(result.solution.triton),
        has_arguments=has_arguments(result.task.source),
        own_state=_own_state(verdict),
        prepares=result.solution is not None and "def prepare(" in result.solution.files["model_new.py"],
        tried=[_tried(number, judged) for number, judged in enumerate(_versions(trajectory), 1)],
        ending=_ENDINGS.get(trajectory.end, str(trajectory.end)) + detail,
        closing=_closing(trajectory),
        spent=spent(trajectory),
        machine=_machine(verdict) if verdict else [],
    )


def example(result: Result) -> str:
    """The text of example.py."""
    assert result.verdict is not None
    return render(
        "example.py.j2",
        has_arguments=has_arguments(result.task.source),
        own_state=_own_state(result.verdict),
        training=result.verdict.mode == "train",
    )


def _own_state(verdict: Verdict | None) -> bool:
    """Its parameters have other names than the task's."""
    return verdict is not None and any("names" in flag or "seed" in flag for flag in verdict.flags)


def has_arguments(source: str) -> bool:
    """The task has a `get_init_inputs`."""
    return any(isinstance(n, ast.FunctionDef) and n.name == "get_init_inputs" for n in ast.parse(source).body)


def duration(microseconds: float | None) -> str:
    """Three digits with a unit; a dash for what was not measured."""
    if microseconds is None:
        return "–"
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e3)):
        if microseconds < limit:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds / 1e6:.3g} s"


def spent(trajectory: Trajectory) -> list[tuple[str, float]]:
    """(what, seconds) of the search, the largest first."""
    sums: dict[str, float] = defaultdict(float)
    sums["looking at the task"] = trajectory.task_seconds
    for turn in trajectory.turns:
        sums["the policy's own work"] += turn.seconds
        for observation in turn.observations:
            sums[f"`{observation['name']}`"] += observation.get("seconds", 0.0)
    sums["judging the winner again, with care"] += trajectory.final_seconds
    return sorted(((k, v) for k, v in sums.items() if v >= 0.05), key=lambda row: -row[1])


def _summary(result: Result) -> str:
    if result.verdict is None:
        again = [f"{j.solution}: {j.verdict.headline()}" for j in result.trajectory.finals]
        if again:
            return f"What passed during the search failed when it was judged again ({'; '.join(again)})."
        if not result.trajectory.judged:
            return "No version was judged before it ended."
        return "No version passed the judge. The versions below say what was wrong with each."
    if result.faster:
        return f"The version in `best/` is right and faster than {' and '.join(result.faster_than)}."
    if not any(getattr(result.verdict.speedup, name) for name in BASELINES):
        return "The version in `best/` is right. It was not timed, so nothing is known about its speed."
    slower = [label for label in BASELINES.values() if label not in result.faster_than]
    times = result.verdict.time_us
    compile_helps = times.compile is not None and times.eager is not None and times.compile < 0.95 * times.eager
    advice = "use `torch.compile(model)`" if compile_helps else "keep your module"
    return (
        f"The version in `best/` is right, but not shown to be faster than {' or '.join(slower)}: {advice}, "
        "or let another policy or a longer search try."
    )


def _doubts(result: Result) -> list[str]:
    verdict = result.verdict
    if verdict is None:
        return []
    doubts = list(verdict.flags)
    if missing := [name for name, active in verdict.guards.items() if not active]:
        doubts.append(f"it was judged without these guards, which this machine does not offer: {', '.join(missing)}")
    if not verdict.careful:
        doubts.append("this verdict is a quick one: the careful judgement did not take place")
    if verdict.correct and verdict.speedup.compile is None:
        doubts.append("torch.compile was not timed, so the comparison with it is missing")
    return doubts


def _closing(trajectory: Trajectory) -> list[str]:
    """What the policy said in the end, without the word that ends it."""
    if not trajectory.turns or not trajectory.turns[-1].done:
        return []
    return str(trajectory.turns[-1].message["content"]).strip().splitlines()[:-1]


def _describe(source: str) -> tuple[str, str]:
    """(the docstrings of the task's file and of Model, the source of Model.forward)."""
    tree = ast.parse(source)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    texts = [ast.get_docstring(tree), ast.get_docstring(model) if model else None]
    methods = [n for n in model.body if isinstance(n, ast.FunctionDef) and n.name == "forward"] if model else []
    forward = (methods and ast.get_source_segment(source, methods[0], padded=True)) or source.strip()
    what = "`forward`" if methods else "file"
    return "\n\n".join(t for t in texts if t) or f"It has no description of its own; its {what}:", _dedent(forward)


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text).rstrip()


def _times(verdict: Verdict) -> list[dict[str, str]]:
    rows = [{"name": "best/", "time": duration(verdict.time_us.candidate), "ratio": "", "interval": ""}]
    for name, label in BASELINES.items():
        ratio, time = getattr(verdict.speedup, name), getattr(verdict.time_us, name)
        interval = "–" if ratio is None else f"{ratio.low:.2f} to {ratio.high:.2f}"
        rows.append({"name": label, "time": duration(time), "ratio": _median(ratio), "interval": interval})
    if verdict.time_us.floor is not None:
        floor = duration(verdict.time_us.floor)
        rows.append({"name": "memory floor (necessary bytes)", "time": floor, "ratio": "", "interval": ""})
    return rows


def _median(ratio: Interval | None) -> str:
    return "–" if ratio is None else f"{ratio.median:.2f}×"


def _versions(trajectory: Trajectory) -> list[Judged]:
    """One row per solution, in order of appearance: what says most about it."""
    rows: dict[str, Judged] = {}
    for judged in trajectory.judged:
        known = rows.get(judged.solution)
        if known is None or _weight(judged) >= _weight(known):
            rows[judged.solution] = judged
    return list(rows.values())


def _weight(judged: Judged) -> tuple[bool, bool, bool]:
    return judged.verb != "compile", not judged.verdict.correct, judged.score is not None


def _tried(number: int, judged: Judged) -> dict[str, Any]:
    verdict = judged.verdict
    said = "" if verdict.correct else (verdict.message.strip().splitlines() or [""])[0].replace("|", "\\|")
    status = "builds; not verified" if verdict.correct and judged.verb == "compile" else verdict.status.value
    return {
        "number": number,
        "at": f"{judged.at_s:.0f} s",
        "status": status.replace("_", " "),
        "time": duration(verdict.time_us.candidate),
        "eager": _median(verdict.speedup.eager),
        "compile": _median(verdict.speedup.compile),
        "note": said if len(said) <= 120 else said[:119] + "…",
    }


def _machine(verdict: Verdict) -> list[tuple[str, str]]:
    rows = [
        (name.replace("_", " "), str(value)) for name, value in verdict.device.items() if value not in (None, "", {})
    ]
    rows += [(name, version) for name, version in verdict.versions.items()]
    return [*rows, ("judged", verdict.created[:19].replace("T", " ") + " UTC")]
