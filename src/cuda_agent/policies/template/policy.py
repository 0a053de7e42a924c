"""The policy: a script of turns that traces, writes, asks the judge and turns knobs by its times.

    trace → one kernel for each operation → fused → knobs, each kept where the judge's times say so → what was done

It holds no state but the script's: handed the same messages, a fresh instance answers the same way.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from cuda_agent.agent.policy import Message, ReplayedPolicy, Script, call, done, says
from cuda_agent.policies.template.cpp import NoCode
from cuda_agent.policies.template.graph import Graph
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.lower import NoRule
from cuda_agent.policies.template.module import ALLOWED_CALLS, Written, write_solution

TRACE = "python -m cuda_agent.policies.template.trace model.py graph.json"
GAIN = 1.015
"""A knob is kept where it is better by more than this, which times of this length can tell."""
MAX_PROFILES = 12
Turn = Generator[Message, list[str], Any]


class TemplatePolicy(ReplayedPolicy):
    """The built-in writer; needs no model."""

    backends = ("cpp",)

    def __init__(self) -> None:
        super().__init__(script)


@dataclass(frozen=True)
class Tried:
    """A solution that the judge found correct. `score` is the mean of its speed-ups; None where it was not timed."""

    knobs: Knobs
    written: Written
    score: float | None
    headline: str


@dataclass
class _Work:
    facts: Mapping[str, Any]
    source: str
    on_disk: dict[str, str]
    profiles: int = 0


def script(opening: list[Message]) -> Script:
    """One episode."""
    work = _Work(_facts(opening), "", {})
    graph, trouble = yield from _trace(work)
    if graph is None:
        yield from _leave_to_torch(work, trouble)
        return
    try:
        refusal = _refused(graph, work.facts)
    except (NoRule, NoCode) as error:
        yield from _leave_to_torch(work, f"no kernel for {error}")
        return
    if refusal:
        yield done(refusal)
        return
    naive = yield from _try(
        work, graph, Knobs(fuse=False), "First one kernel for each operation, to have something correct."
    )
    fused = yield from _try(work, graph, Knobs(), "Now the operations that share a pass over memory in one kernel.")
    if fused is None:
        fused = yield from _try(
            work,
            graph,
            Knobs(keep=False, fold=False, lanes=1),
            "That was not right; the same without folded weights and kept values.",
        )
    best = fused or naive
    if best is None:
        yield from _leave_to_torch(work, "what the rules wrote was not found correct")
        return
    if fused is not None:
        best = yield from _turn_knobs(work, graph, fused)
    yield done(_summary(best))


def _facts(opening: list[Message]) -> Mapping[str, Any]:
    lines = str(opening[-1].get("content", "")).strip().splitlines() if opening else []
    for line in reversed(lines):
        if line.startswith("TASK {"):
            facts = json.loads(line.removeprefix("TASK "))
            return facts if isinstance(facts, dict) else {}
    return {}


def _trace(work: _Work) -> Generator[Message, list[str], tuple[Graph | None, str]]:
    command = TRACE + (" --train" if work.facts.get("mode") == "train" else "")
    answers = yield says("I trace the module to see its operators.", call("bash", command=command, timeout_s=120))
    if "exit code 0" not in answers[0].splitlines()[:1]:
        return None, f"the trace did not run: {answers[0][-400:]}"
    answers = yield says("I read the graph that was traced.", call("read", path="graph.json", max_chars=4_000_000))
    try:
        graph = Graph.model_validate_json(answers[0].strip())
    except ValidationError as error:
        return None, f"the traced graph cannot be read: {error.errors()[0]['msg']}"
    if graph.problems:
        return None, f"it cannot be traced: {'; '.join(graph.problems)}"
    if work.facts.get("precision", "fp32") != "fp32":
        return None, f"there are no rules for {work.facts['precision']} yet"
    return graph, ""


def _refused(graph: Graph, facts: Mapping[str, Any]) -> str:
    """Why the task's rules rule out what would have to be left to torch; empty where they do not."""
    rules = facts.get("rules", "any")
    if rules == "any":
        return ""
    written = write_solution(graph, Knobs())
    missing = [f"{op} ({why})" for op, why in written.fallbacks.items()]
    if rules == "kernels":
        missing += [f"{target} (left to the library)" for target in written.library if target in ALLOWED_CALLS]
    if not missing:
        return ""
    return (
        f"Nothing written. There is no rule for {', '.join(missing)}, and rules `{rules}` do not allow torch's own. "
        "Under rules `any` they would be left to torch."
    )


def _try(
    work: _Work, graph: Graph, knobs: Knobs, why: str, timed: bool | None = None
) -> Generator[Message, list[str], Tried | None]:
    """Writes the solution for some knobs and asks the judge. None where it is not correct."""
    try:
        written = write_solution(graph, knobs)
    except (NoRule, NoCode):
        return None
    answers = yield says(_told(why, written, knobs), *_writes(work, written))
    if any(a.startswith("error:") for a in answers):
        return None
    timed = knobs.fuse if timed is None else timed
    verb = "profile" if timed else "verify"
    work.profiles += timed
    answers = yield says("Is it right" + (", and how fast?" if timed else "?"), call(verb))
    verdict = last_object(answers[-1])
    if verdict.get("status") != "correct":
        return None
    return Tried(knobs, written, _score(verdict), answers[-1].splitlines()[0])


def _writes(work: _Work, written: Written) -> Iterator[dict[str, Any]]:
    for path, text in written.files.items():
        if work.on_disk.get(path) != text:
            work.on_disk[path] = text
            yield call("write", path=path, content=text)


def _told(why: str, written: Written, knobs: Knobs) -> str:
    lines = [why, f"Knobs: {knobs.describe()}."]
    lines += [f"- {k}" for k in written.kernels[:12]]
    if len(written.kernels) > 12:
        lines.append(f"- and {len(written.kernels) - 12} more kernels")
    lines += [f"- folded: {f}" for f in written.folded[:5]]
    lines += [f"- left to torch: {op}: {why}" for op, why in written.fallbacks.items()]
    return "\n".join(lines)


def _turn_knobs(work: _Work, graph: Graph, best: Tried) -> Generator[Message, list[str], Tried]:
    seen = {json.dumps(best.written.files)}
    for name, values in _knob_values(best.written):
        for value in values:
            if work.profiles >= MAX_PROFILES:
                return best
            knobs = replace(best.knobs, **{name: value})
            text = json.dumps(write_solution(graph, knobs).files)
            if text in seen:
                continue
            seen.add(text)
            tried = yield from _try(work, graph, knobs, f"Does it help to set {name} to {value}?")
            if (
                tried is not None
                and tried.score is not None
                and (best.score is None or tried.score > best.score * GAIN)
            ):
                best = tried
    return best


def _knob_values(written: Written) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """What to turn, the most promising first."""
    if written.streamable:
        yield "stream", (True,)
    if written.tiled:
        yield "tile", (256, 1024, 4096)
    yield "rows", (8, 1)
    yield "lanes", (4,)
    yield "keep", (False,)
    yield "serial", (1 << 40,)


def _score(verdict: Mapping[str, Any]) -> float | None:
    """Geometric mean of the speed-ups that were measured."""
    ratios = [row["median"] for row in (verdict.get("speedup") or {}).values() if row]
    product = 1.0
    for ratio in ratios:
        product *= ratio
    return product ** (1 / len(ratios)) if ratios else None


def last_object(text: str) -> dict[str, Any]:
    """The last JSON object in a text, after `VERDICT` where there is one; empty where there is none."""
    decoder = json.JSONDecoder()
    _, mark, after = text.rpartition("VERDICT {")
    starts = [0] if mark else [i for i, ch in enumerate(text) if ch == "{"]
    body = "{" + after if mark else text
    for start in starts:
        try:
            found, _ = decoder.raw_decode(body[start:])
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def _leave_to_torch(work: _Work, why: str) -> Script:
    """The module as it is, where the rules allow it: correct, and no faster."""
    if work.facts.get("rules", "any") != "any":
        yield done(f"Nothing written: {why}. Rules `{work.facts['rules']}` do not allow to leave it to torch.")
        return
    answers = yield says(
        f"There are no rules for this module: {why}. I leave it to torch.",
        call("read", path="model.py", max_chars=1_000_000),
    )
    source = f"# Left to torch as it is: {' '.join(why.split())[:300]}\n{answers[0].rstrip()}\n\n\nModelNew = Model\n"
    yield says("The module as it is, under its new name.", call("write", path="model_new.py", content=source))
    yield says("Is it right?", call("profile"))
    yield done(f"Everything is left to torch: {why}.")


def _summary(best: Tried) -> str:
    lines = [f"Best: {best.headline}", f"Knobs: {best.knobs.describe()}."]
    lines += [f"Kernel {k}" for k in best.written.kernels]
    lines += [f"Folded in prepare(): {f}" for f in best.written.folded]
    lines += [f"No rule, left to torch: {op}: {why}" for op, why in best.written.fallbacks.items()]
    return "\n".join(lines)
