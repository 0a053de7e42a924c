"""What happened in one episode, folded from its events.

The loop decides from a `Trajectory` alone what comes next, and a trajectory is made by `apply`ing events in order:
while they happen, and again when a run is resumed. Both ways lead to the same state.

    message      {message, fault, seconds, usage}                   of the system, the user or the policy
    call         {call, name, arguments}                            a tool starts
    verdict      {call, verb, verdict, solution}                    the judge has answered
    observation  {call, name, content, ok, writes, seconds}         a tool has answered; `writes` are put in place then
    end          {reason, detail}                                   the episode is over
    resume       {best}                                             another process goes on; the best score so far
    final        {verdict, solution, seconds}                       a winner was judged again, with care
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cuda_agent.agent.policy import Message, is_done
from cuda_agent.verdict import Status, Verdict

MAX_STRIKES = 5
"""Turns in a row that lead nowhere before the episode ends: no tool call, none that can be carried out, or repeats."""
_FAILURES = (Status.WRONG, Status.FORBIDDEN, Status.RUNTIME_ERROR)


@dataclass(frozen=True)
class ToolCall:
    id: str
    name: str
    arguments: str
    """JSON as the policy wrote it."""


@dataclass(frozen=True)
class Judged:
    """One answer of the judge within the episode."""

    call: str
    verb: str
    """compile, verify or profile."""
    verdict: Verdict
    solution: str
    """The solution's id; the store has its files."""
    at_s: float = 0.0
    """When, in seconds of the episode."""

    @property
    def verified(self) -> bool:
        return self.verdict.correct and self.verb != "compile"

    @property
    def score(self) -> float | None:
        return score(self.verdict)


@dataclass
class Turn:
    """A message of the policy and what its calls answered."""

    message: Message
    fault: str = ""
    """What was wrong with its form."""
    seconds: float = 0.0
    observations: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def calls(self) -> list[ToolCall]:
        rows = [(c["id"], c["function"]) for c in self.message.get("tool_calls") or ()]
        return [ToolCall(id, function["name"], function["arguments"]) for id, function in rows]

    @property
    def pending(self) -> list[ToolCall]:
        return self.calls[len(self.observations) :]

    @property
    def done(self) -> bool:
        return not self.fault and is_done(self.message)

    @property
    def idle(self) -> bool:
        """Nothing in it could be carried out."""
        return bool(self.fault) or not self.calls or not any(o["ok"] for o in self.observations)

    def repeats(self, other: Turn) -> bool:
        return self._gist() == other._gist()

    def _gist(self) -> list[Any]:
        """Calls and answers, without the line for programs, which differs each time (ids, seconds)."""
        answers = [o["content"].rpartition("\nVERDICT {")[0] or o["content"] for o in self.observations]
        return [*((c.name, c.arguments) for c in self.calls), *answers]


@dataclass
class Trajectory:
    """The state of an episode; only `apply` changes it."""

    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    finals: list[Judged] = field(default_factory=list)
    end: str | None = None
    end_detail: str = ""
    task_seconds: float = 0.0
    """Seconds that looking at the task took, before the first message."""
    final_seconds: float = 0.0
    """Seconds that judging winners again has taken."""
    elapsed_s: float = 0.0
    """Seconds the episode has taken, over all its processes."""
    tokens: int = 0
    unwritten: Mapping[str, str] = field(default_factory=dict)
    """Files of the newest observation, which a killed run may not have put in place."""

    def apply(self, kind: str, payload: Mapping[str, Any]) -> None:
        self.elapsed_s = payload.get("elapsed_s", self.elapsed_s)
        self.unwritten = {}
        if kind == "message":
            self._message(payload)
        elif kind == "verdict":
            self.judged.append(_judged(payload))
        elif kind == "observation":
            self.turns[-1].observations.append(payload)
            self.messages.append({"role": "tool", "tool_call_id": payload["call"], "content": payload["content"]})
            self.unwritten = payload.get("writes") or {}
        elif kind == "end":
            self.end, self.end_detail, self.finals = payload["reason"], payload.get("detail", ""), []
        elif kind == "resume" and self.end == "policy_failed":
            self.end = None
        elif kind == "final":
            self.finals.append(_judged({"call": "", "verb": "final", **payload}))
            self.final_seconds += payload.get("seconds", 0.0)

    def _message(self, payload: Mapping[str, Any]) -> None:
        if not self.messages:
            self.task_seconds = self.elapsed_s
        message = dict(payload["message"])
        self.messages.append(message)
        self.end = None
        if message["role"] == "assistant":
            self.turns.append(Turn(message, payload.get("fault", ""), payload.get("seconds", 0.0)))
            usage = payload.get("usage") or {}
            self.tokens += usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)

    @property
    def pending(self) -> list[ToolCall]:
        """Calls of the last message that have no observation yet."""
        return self.turns[-1].pending if self.turns else []

    @property
    def calls(self) -> int:
        """Calls that were answered."""
        return sum(len(turn.observations) for turn in self.turns)

    @property
    def evaluations(self) -> int:
        return sum(j.verb != "compile" for j in self.judged)

    @property
    def finished(self) -> bool:
        """The policy has said that it is done."""
        return bool(self.turns) and self.messages[-1] is self.turns[-1].message and self.turns[-1].done

    @property
    def strikes(self) -> int:
        """How many of the last turns led nowhere, one after the other."""
        count = 0
        for at in range(len(self.turns) - 1, -1, -1):
            if not self.turns[at].idle and (at == 0 or not self.turns[at].repeats(self.turns[at - 1])):
                break
            count += 1
        return count

    def recorded(self, call: str) -> Verdict | None:
        """The verdict that this call got, if it got one."""
        return next((j.verdict for j in self.judged if j.call == call), None)

    def ranked(self) -> list[Judged]:
        """The verified solutions, the fastest first, each once; those that were not timed come last, newest first.

        Each evaluation has secret inputs of its own: what failed one is out, however many others it passed."""
        failed = {j.solution for j in self.judged if j.verdict.status in _FAILURES}
        best: dict[str, Judged] = {}
        for judged in self.judged:
            known = best.get(judged.solution)
            if judged.verified and (known is None or known.score is None or judged.score is not None):
                best[judged.solution] = judged
        newest_first = [judged for judged in reversed(best.values()) if judged.solution not in failed]
        return sorted(newest_first, key=lambda j: -math.inf if j.score is None else j.score, reverse=True)

    @property
    def best(self) -> Judged | None:
        return next(iter(self.ranked()), None)

    def to_chat(self) -> str:
        """The messages as one line of JSON in the OpenAI chat format."""
        return json.dumps({"messages": self.messages}, ensure_ascii=False)


def score(verdict: Verdict) -> float | None:
    """What versions are ranked by: the mean of the logarithms of the speed-ups over eager and torch.compile; None where
    it was not timed."""
    ratios = [r.median for r in (verdict.speedup.eager, verdict.speedup.compile) if r is not None]
    return sum(math.log(ratio) for ratio in ratios) / len(ratios) if ratios else None


def _judged(payload: Mapping[str, Any]) -> Judged:
    verdict = Verdict.model_validate(payload["verdict"])
    return Judged(payload["call"], payload["verb"], verdict, payload["solution"], payload.get("elapsed_s", 0.0))


@dataclass(frozen=True)
class Budget:
    """What an episode may use; None is no limit. `tokens` counts what the policy reports."""

    turns: int | None = 300
    seconds: float | None = 120.0
    evaluations: int | None = 200
    tokens: int | None = None

    def spent(self, trajectory: Trajectory, elapsed_s: float) -> str | None:
        """The name of what is used up."""
        used = {
            "turns": len(trajectory.turns),
            "seconds": elapsed_s,
            "evaluations": trajectory.evaluations,
            "tokens": trajectory.tokens,
        }
        return next((name for name, limit in asdict(self).items() if limit is not None and used[name] >= limit), None)
