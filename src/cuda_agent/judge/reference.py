"""A worker that runs a task: asking it for inputs, outputs and parameters, and saying what the task did wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import Call, Layout, Side, side_for
from cuda_agent.judge.values import Value
from cuda_agent.judge.worker.pool import Answer, Worker, WorkerFault

TASK_TIMEOUT_S = 120.0


class InvalidTask(Exception):
    """The task cannot be judged; the message says why."""


class Reference:
    """A reference worker and its share of memory."""

    def __init__(self, worker: Worker, settings: Settings, folder: str) -> None:
        self.worker, self.settings = worker, settings
        self.side: Side | None = None
        self._state: Value | None = None
        self.ask("load", precision=settings.precision, folder=folder)

    def ask(self, op: str, **arguments: Any) -> Answer:
        with_owner = owned(op)
        try:
            return self.worker.ask(op, timeout_s=TASK_TIMEOUT_S, **arguments)
        except WorkerFault as fault:
            raise with_owner(fault) from None

    def inputs(self, seed: int) -> Value:
        answer = self.ask("inputs", seed=seed)
        return Value.from_reply(answer.reply, answer.data)

    def init_inputs(self, seed: int) -> Value:
        answer = self.ask("init_inputs", seed=seed)
        return Value.from_reply(answer.reply, answer.data)

    def build(self, seed: int) -> tuple[Value, tuple[dict[str, Any], ...]]:
        answer = self.ask("build", seed=seed, mode=self.settings.mode)
        return Value.from_reply(answer.reply, answer.data), tuple(answer.reply["state"])

    def attach(self, layout: Layout) -> Side:
        self.side = side_for(self.worker, layout, TASK_TIMEOUT_S)
        return self.side

    def put_state(self, state: Value) -> None:
        assert self.side is not None
        if state is not self._state:
            self.side.put_state(state)
            self._state = state

    def use(self, how: str) -> None:
        lean = self.side is not None and self.side.layout.lean
        self.ask("use", how=how, single=lean)

    def run(self, inputs: Value, seed: int | None = None) -> Call:
        assert self.side is not None
        if seed is not None:
            self.ask("seed", seed=seed)
        try:
            return self.side.call(inputs)
        except WorkerFault as fault:
            raise owned("run")(fault) from None

    def output(self, inputs: Value, how: str = "eager") -> Value:
        self.use(how)
        output = self.run(inputs).output
        assert output is not None and self.side is not None
        if self.side.layout.lean:
            self.side.release()
        return output

    def close(self) -> None:
        if self.side is not None:
            self.side.close()
        else:
            self.worker.kill()


def owned(op: str) -> Callable[[WorkerFault], InvalidTask]:
    """A worker's fault while it ran task code, as the task's."""
    what = {"load": "loading", "inputs": "get_inputs()", "init_inputs": "get_init_inputs()", "build": "the constructor"}
    place = what.get(op, "the reference")

    def invalid(fault: WorkerFault) -> InvalidTask:
        detail = fault.detail
        match fault.state:
            case "timeout":
                return InvalidTask(f"{place} takes longer than {detail.get('seconds', TASK_TIMEOUT_S):.0f} s")
            case "memory" | "too_large":
                return InvalidTask(f"{place} needs more memory than there is for it")
            case "died":
                return InvalidTask(f"{place} ends its process (exit status {detail.get('code')})")
            case "error" if detail.get("kind") == "memory":
                return InvalidTask(f"{place} needs more memory than there is for it")
            case "error" if detail.get("kind") == "task":
                return InvalidTask(str(detail.get("message")))
            case "error" if detail.get("kind") == "output":
                return InvalidTask(f"{place}: {detail.get('message')}")
            case "error":
                frames = detail.get("frames") or []
                at = f" ({frames[-1]})" if frames else ""
                kind = f"{detail['type']}: " if detail.get("type") else ""
                return InvalidTask(f"{place} raises {kind}{detail.get('message')}{at}")
        return InvalidTask(f"{place} fails: {fault.state} {detail}")

    return invalid
