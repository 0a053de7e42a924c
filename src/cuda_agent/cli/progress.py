"""What a person sees while `optimize` works: a line for each verdict, and on a terminal what goes on right now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from cuda_agent.cli.console import say, stdout

if TYPE_CHECKING:
    from cuda_agent.store import Event
    from cuda_agent.verdict import Verdict

_ACTIVITIES = {"compile": "compiling", "verify": "checking", "profile": "timing", "bash": "running"}

_ENDINGS = {
    "seconds": "the time for the search is used up",
    "turns": "the turns are used up",
    "evaluations": "the evaluations are used up",
    "tokens": "the tokens are used up",
    "stuck": "the policy's last answers led nowhere",
    "policy_failed": "the policy failed",
    "invalid_task": "the task cannot be judged",
}


class Progress:
    """Called with each event of a run. On Ctrl-C it adds how to go on."""

    def __init__(self) -> None:
        self._run: str | None = None
        self._best: float | None = None
        self._status = stdout().status("starting …")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._status.stop()
        if isinstance(error, KeyboardInterrupt) and self._run:
            error.args = (f"go on with it: cuda-agent optimize --resume {self._run}",)

    def __call__(self, event: Event) -> None:
        self._run = event.run
        handle = getattr(self, f"_on_{event.kind}", None)
        if handle is not None:
            handle(event.payload)

    def _on_start(self, payload: Mapping[str, Any]) -> None:
        say(f"{payload['task']}: run {self._run}, policy {payload['policy']}")
        self._status.update("looking at the task …")

    def _on_resume(self, payload: Mapping[str, Any]) -> None:
        self._best = payload.get("best")
        say(f"going on with run {self._run} after {payload['elapsed_s']:.0f} s")

    def _on_message(self, payload: Mapping[str, Any]) -> None:
        message = payload["message"]
        lines = (message.get("content") or "").strip().splitlines()
        calls = {call["function"]["name"] for call in message.get("tool_calls") or ()}
        if message["role"] == "assistant" and lines and calls - {"compile", "verify", "profile"}:
            say(f"{_at(payload)}  {lines[0]}", style="dim")

    def _on_call(self, payload: Mapping[str, Any]) -> None:
        name = payload["name"]
        self._status.update(f"{_ACTIVITIES.get(name, name)}{_object(payload['arguments'])} …")

    def _on_verdict(self, payload: Mapping[str, Any]) -> None:
        from cuda_agent.verdict import Verdict

        verdict = Verdict.model_validate(payload["verdict"])
        if verdict.correct and payload["verb"] == "compile":
            return
        remark, style = self._rank(verdict)
        say(f"{_at(payload)}  {payload['verb']:8} {verdict.headline()}{remark}", style=style)

    def _on_end(self, payload: Mapping[str, Any]) -> None:
        if payload["reason"] != "done":
            detail = f": {payload['detail']}" if payload.get("detail") else ""
            say(f"{_at(payload)}  {_ENDINGS.get(payload['reason'], payload['reason'])}{detail}", style="yellow")

    def _on_confirm(self, payload: Mapping[str, Any]) -> None:
        say(f"{_at(payload)}  The best one is judged again, with care.", style="dim")
        self._status.update("judging the best one again, with care …")

    def _on_final(self, payload: Mapping[str, Any]) -> None:
        from cuda_agent.verdict import Verdict

        verdict = Verdict.model_validate(payload["verdict"])
        say(f"{_at(payload)}  final    {verdict.headline()}")

    def _rank(self, verdict: Verdict) -> tuple[str, str | None]:
        """A remark and a style: the first timed result and each better one stand out."""
        from cuda_agent.agent.trajectory import score

        if not verdict.correct:
            return "", "yellow"
        now = score(verdict)
        if now is None or (self._best is not None and now <= self._best):
            return "", None
        first, self._best = self._best is None, now
        return ("  <- first result", "bold green") if first else ("  <- best so far", "green")


def _at(payload: Mapping[str, Any]) -> str:
    return f"{payload['elapsed_s']:5.0f} s"


def _object(arguments: str) -> str:
    """What a call is about, in a few words."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return ""
    text = next((value for value in values.values() if isinstance(value, str)), "") if isinstance(values, dict) else ""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return f" {first[:60]}" if first else ""
