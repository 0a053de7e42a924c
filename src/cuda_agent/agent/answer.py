"""Checking what a policy answers: the boundary between a model's text and the loop."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from cuda_agent.agent.policy import DONE, Message

MAX_CONTENT = 100_000
MAX_ARGUMENTS = 3 << 20
MAX_CALLS = 32


class _Function(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = None


class _Call(BaseModel):
    id: str | None = None
    function: _Function


class _Answer(BaseModel):
    content: str | None = None
    tool_calls: list[_Call] | None = None
    usage: dict[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    message: Message
    """What goes into the messages, whatever the policy sent."""
    usage: dict[str, int]
    fault: str = ""
    """What was wrong with its form."""


def check_answer(given: Any, known_ids: Collection[str]) -> Answer:
    """The message as it is kept: an assistant's, with ids that are unique in the run, and text that is valid UTF-8."""
    try:
        answer = _Answer.model_validate(given)
        fault = _excess(answer)
    except ValidationError as error:
        row = error.errors(include_url=False)[0]
        answer, fault = _Answer(content=str(given)), f"{'.'.join(map(str, row['loc'])) or 'it'}: {row['msg']}"
    message: Message = {"role": "assistant", "content": _clean(answer.content or "")[:MAX_CONTENT]}
    if answer.tool_calls and not fault:
        message["tool_calls"] = _calls(answer.tool_calls, set(known_ids))
    usage = {k: v for k, v in (answer.usage or {}).items() if isinstance(v, int) and not isinstance(v, bool)}
    return Answer(message, usage, fault)


def _excess(answer: _Answer) -> str:
    calls = answer.tool_calls or []
    if len(calls) > MAX_CALLS:
        return f"it has {len(calls)} tool calls; {MAX_CALLS} are the most"
    long = next((c.function.name for c in calls if len(c.function.arguments or "") > MAX_ARGUMENTS), None)
    return f"the arguments of {long[:80]!r} are longer than {MAX_ARGUMENTS} characters" if long is not None else ""


def _calls(calls: list[_Call], taken: set[str]) -> list[dict[str, Any]]:
    rows = []
    for call in calls:
        id = _clean(call.id or "")
        if not id or id in taken:
            id = f"call_{len(taken) + 1}"
        while id in taken:
            id += "_"
        taken.add(id)
        given = call.function.arguments
        arguments = given if isinstance(given, str) else json.dumps(given or {})
        function = {"name": _clean(call.function.name), "arguments": _clean(arguments)}
        rows.append({"id": id, "type": "function", "function": function})
    return rows


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "�")


def hint(fault: str, had_calls: bool, left: int) -> str:
    """What the policy is told after a turn that led nowhere; `left` more of them end the episode."""
    if fault:
        said = f"Your message could not be used: {fault}."
    elif had_calls:
        said = "Your last calls could not be carried out, or repeat the ones before with the same result."
    else:
        said = "Your message calls no tool, so nothing has happened."
    return (
        f"{said} Go on with a tool call, for example write, verify or profile. When you are finished, answer without "
        f"a tool call and with {DONE} as the last line. After {left} more such message{'s' * (left != 1)} "
        "the work ends with the best solution so far."
    )
