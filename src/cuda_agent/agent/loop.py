"""The loop: the policy acts, its tool calls are carried out, everything is stored as it happens, until an end.

What comes next follows from the trajectory alone, and the trajectory from the stored events, so that going on after a
crash is the same as going on: a policy's message that is stored is not asked for again, a call with an observation is
not repeated, a verdict that is stored is read back. Only the step that was under way is taken again.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuda_agent.agent.answer import check_answer, hint
from cuda_agent.agent.policy import Message, Policy
from cuda_agent.agent.tools import TOOLS, Context, Tool, call_tool
from cuda_agent.agent.trajectory import MAX_STRIKES, Budget, ToolCall, Trajectory
from cuda_agent.agent.workspace import Workspace
from cuda_agent.errors import MachineError
from cuda_agent.sandbox import Runner
from cuda_agent.solution import Solution
from cuda_agent.store import Event, Store
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

if TYPE_CHECKING:
    from cuda_agent.judge import Judge, Settings

OnEvent = Callable[[Event], None]


@dataclass
class Episode:
    """One run of the loop. `run()` goes on from what `trajectory` holds and returns it when the episode has ended."""

    task: Task
    policy: Policy
    judge: Judge
    settings: Settings
    workspace: Workspace
    runner: Runner
    budget: Budget
    store: Store
    run_id: str
    opening: list[Message]
    on_event: OnEvent = lambda event: None
    tools: list[Tool[Any]] = field(default_factory=lambda: TOOLS)
    trajectory: Trajectory = field(default_factory=Trajectory)
    reserve_s: float = 0.0
    """Of the budget's seconds, what is kept for later as soon as something is right."""

    def __post_init__(self) -> None:
        self._began = time.monotonic() - self.trajectory.elapsed_s

    def run(self) -> Trajectory:
        if self.trajectory.messages:
            self._put(self.trajectory.unwritten)
            best = self.trajectory.best
            self.emit("resume", best=best.score if best else None)
        for message in self.opening[len(self.trajectory.messages) :]:
            self.emit("message", message=message)
        while (reason := self._reason_to_end()) is None:
            if self.trajectory.pending:
                self._call(self.trajectory.pending[0])
            elif self.trajectory.messages[-1]["role"] != "user" and (advice := self._advice()):
                self.emit("message", message={"role": "user", "content": advice})
            else:
                self._act()
        if self.trajectory.end != reason:
            self.emit("end", reason=reason)
        return self.trajectory

    def emit(self, kind: str, **payload: Any) -> None:
        """Stores the event, then changes the state, then shows it."""
        event = self.store.append_event(self.run_id, kind, {**payload, "elapsed_s": self.elapsed_s})
        self.trajectory.apply(kind, event.payload)
        self.on_event(event)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def _reason_to_end(self) -> str | None:
        state = self.trajectory
        if state.end in ("policy_failed", "invalid_task") or (state.finished and not state.pending):
            return state.end or "done"
        if state.strikes >= MAX_STRIKES and not state.pending:
            return "stuck"
        return self.budget.spent(state, self.elapsed_s + (self.reserve_s if state.best is not None else 0.0))

    def _advice(self) -> str:
        """What the policy is to be told about its last turn; empty where all is well."""
        strikes = self.trajectory.strikes
        if strikes == 0 or (strikes == 1 and self.trajectory.turns[-1].calls):
            return ""
        turn = self.trajectory.turns[-1]
        return hint(turn.fault, bool(turn.calls), MAX_STRIKES - strikes)

    def _act(self) -> None:
        began = time.monotonic()
        try:
            given = self.policy.act(list(self.trajectory.messages), [tool.schema for tool in self.tools])
        except Exception as error:  # a policy is a plug-in: its failure ends the episode and nothing else
            detail = f"{type(error).__name__}: {error}"
            self.emit("end", reason="policy_failed", detail=detail, traceback=traceback.format_exc())
            return
        ids = {call.id for turn in self.trajectory.turns for call in turn.calls}
        answer = check_answer(given, ids)
        seconds = time.monotonic() - began
        self.emit("message", message=answer.message, fault=answer.fault, usage=answer.usage, seconds=seconds)

    def _call(self, call: ToolCall) -> None:
        self.emit("call", call=call.id, name=call.name, arguments=call.arguments)
        began = time.monotonic()
        observation = call_tool(self.tools, call.name, call.arguments, self._context(call))
        seconds = time.monotonic() - began
        told = {"content": observation.content, "ok": observation.ok, "writes": dict(observation.writes)}
        self.emit("observation", call=call.id, name=call.name, seconds=seconds, **told)
        self._put(observation.writes)
        verdict = self.trajectory.recorded(call.id)
        if verdict is not None and verdict.status is Status.INVALID_TASK:
            self.emit("end", reason="invalid_task", detail=verdict.message)

    def _context(self, call: ToolCall) -> Context:
        def record(verb: str, verdict: Verdict, solution: Solution) -> Verdict:
            if not verdict.id:  # the judge stores what it evaluates, but no builds
                verdict = self.store.save_verdict(verdict, self.task, solution, self.run_id)
            data = verdict.model_dump(mode="json", by_alias=True)
            self.emit("verdict", call=call.id, verb=verb, verdict=data, solution=solution.id)
            return verdict

        left = float("inf") if self.budget.seconds is None else max(1.0, self.budget.seconds - self.elapsed_s)
        return Context(
            self.workspace,
            self.runner,
            self.judge,
            self.task,
            self.settings,
            self.run_id,
            number=self.trajectory.calls + 1,
            seconds_left=left,
            record=record,
            recorded=self.trajectory.recorded(call.id),
        )

    def _put(self, files: Any) -> None:
        try:
            self.workspace.write(files)
        except OSError as error:
            raise MachineError(f"{self.workspace.folder} cannot be written: {error.strerror}") from error
