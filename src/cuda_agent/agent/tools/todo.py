"""todo: a list that keeps a long piece of work in order. It lives in the messages only."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cuda_agent.agent.tools.base import Arguments, Context, Observation, Tool

_MARKS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class Item(Arguments):
    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "done"] = "pending"


class Todo(Arguments):
    items: list[Item] = Field(max_length=100, description="the whole list, in order; it replaces the last one")


def todo(arguments: Todo, context: Context) -> Observation:
    lines = [f"{_MARKS[item.status]} {item.content}" for item in arguments.items]
    left = sum(item.status != "done" for item in arguments.items)
    return Observation("\n".join([*lines, f"{left} of {len(lines)} left"]))


TODO = [
    Tool(
        "todo",
        "Write down the steps of the work and where you are.",
        Todo,
        todo,
        {"items": [{"content": "fuse the epilogue", "status": "in_progress"}]},
    )
]
