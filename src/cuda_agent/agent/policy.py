"""The contract of whoever writes: `act(messages, tools) -> message`, in the chat format of the OpenAI API.

**A policy is a pure function of the messages.** It may keep what it has worked out, but a fresh instance that is handed
the same messages must answer the same way. That is what makes a run resumable after `kill -9`: the loop rebuilds the
messages from the store and simply calls `act` again. A policy written as a script of steps gets this for free from
`ReplayedPolicy`, which runs the script from its start over the recorded results.

What a policy sees: `messages[0]` (system: the rules of the work), `messages[1]` (user: the task; its last line is
`TASK {json}`), then its own messages and, for each tool call, one `tool` message. What `compile`, `verify` and
`profile` answer ends in a line `VERDICT {json}`.

How a policy ends the episode: a message without tool calls whose last line is `DONE`. Any other message without tool
calls is answered with a hint, and ends the episode when it goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from cuda_agent.errors import UsageError

Message = dict[str, Any]
"""`role` (system, user, assistant, tool), `content`, for an assistant `tool_calls`, for a tool `tool_call_id`. What
`act` returns may carry `usage` ({prompt_tokens, completion_tokens}), which is recorded and not sent back."""

ToolSchema = dict[str, Any]
"""`{"type": "function", "function": {"name", "description", "parameters"}}`."""

DONE = "DONE"
ENTRY_POINTS = "cuda_agent.policies"
_BUILT_IN = {"template": "cuda_agent.policies.template:TemplatePolicy"}


class Policy(Protocol):
    """Whoever writes. An exception from `act` ends the episode; what was verified until then stays.

    One that writes for some backends only has their names in an attribute `backends`."""

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message: ...


Script = Generator[Message, list[str], None]
"""Yields an assistant message, is sent the contents of its tool results in order; returning ends the episode."""


class ReplayedPolicy:
    """A policy from a script: `script(messages)` gets the opening messages (system, user) and is a generator.

    The script must be deterministic given what it is sent: no clock, no random numbers without a seed. When the
    messages are not the continuation of what this instance has seen (a resumed run), the script starts again and is fed
    the recorded results."""

    def __init__(self, script: Callable[[list[Message]], Script]) -> None:
        self._make = script
        self._script: Script | None = None
        self._seen: tuple[list[Message], list[list[str]]] = ([], [])

    def act(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        opening, turns = list(messages[:2]), results_by_turn(messages)
        waiting: list[list[str] | None] = [*turns[-1:]]
        if self._script is None or (opening, turns[:-1]) != self._seen or not turns:
            self._script, waiting = self._make(opening), [None, *turns]
        self._seen = (opening, turns)
        try:
            answers = [next(self._script) if results is None else self._script.send(results) for results in waiting]
        except StopIteration:
            return done()
        return answers[-1]


def results_by_turn(messages: Sequence[Message]) -> list[list[str]]:
    """For each assistant message so far, the contents of its tool results."""
    turns: list[list[str]] = []
    for message in messages:
        if message["role"] == "assistant":
            turns.append([])
        elif message["role"] == "tool":
            turns[-1].append(message["content"])
    return turns


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """One entry of `tool_calls`; the loop gives it an id of its own."""
    return {"id": "", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def says(content: str, *calls: dict[str, Any]) -> Message:
    """An assistant message with tool calls made by `call`."""
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


def done(content: str = "") -> Message:
    """The message that ends the episode."""
    return says(f"{content}\n{DONE}".strip())


def is_done(message: Message) -> bool:
    lines = (message.get("content") or "").strip().splitlines()
    return not message.get("tool_calls") and bool(lines) and lines[-1].strip(" .*`") == DONE


def check_backend(policy: Policy, name: str, backend: str) -> None:
    """Raises UsageError where there is no such backend, or the policy called `name` does not write for it."""
    from cuda_agent.backends import get_backend

    written: tuple[str, ...] = getattr(policy, "backends", ())
    if backend != "auto" and get_backend(backend).name not in (written or (backend,)):
        raise UsageError(f"policy {name!r} writes kernels with {' and '.join(written)} only, none with {backend!r}")


def load_policy(name: str) -> Policy:
    """The policy of that name: an entry point of the group `cuda_agent.policies`. Raises UsageError."""
    known = {**_BUILT_IN, **{point.name: point.value for point in entry_points(group=ENTRY_POINTS)}}
    if name not in known:
        raise UsageError(f"no policy {name!r}; there are: {', '.join(sorted(known))}")
    module, _, attribute = known[name].partition(":")
    policy: Policy = getattr(import_module(module), attribute)()
    return policy
