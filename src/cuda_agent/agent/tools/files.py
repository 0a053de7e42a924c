"""read, write, edit, multi_edit: text files of the workspace."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import Field

from cuda_agent.agent.tools.base import MAX_CHARS, Arguments, Context, Observation, Tool
from cuda_agent.errors import UsageError


class Read(Arguments):
    path: str = Field(description="file, relative to the workspace")
    offset: int = Field(1, ge=1, description="first line, counted from 1")
    limit: int = Field(2000, ge=1, description="lines at most")
    max_chars: int = Field(MAX_CHARS, ge=200, le=4_000_000, description="characters at most")


class Write(Arguments):
    path: str = Field(description="file, relative to the workspace; folders are made")
    content: str = Field(description="the whole new text")


class Change(Arguments):
    old_string: str = Field(min_length=1, description="text that the file holds exactly once, with its indentation")
    new_string: str = Field(description="what replaces it")
    replace_all: bool = Field(False, description="replace each occurrence")


class Edit(Change):
    path: str = Field(description="file, relative to the workspace")


class MultiEdit(Arguments):
    path: str = Field(description="file, relative to the workspace")
    edits: list[Change] = Field(min_length=1, description="applied one after the other, all or none")


def read(arguments: Read, context: Context) -> Observation:
    """The lines as they are; when some are left out, a last line in brackets says which and how to go on."""
    lines = context.workspace.read(arguments.path).splitlines(keepends=True)
    first = arguments.offset - 1
    if first >= len(lines):
        return Observation(f"[{arguments.path} has {len(lines)} lines]", ok=first == 0)
    shown, size = first, 0
    while shown < min(len(lines), first + arguments.limit) and size + len(lines[shown]) <= arguments.max_chars:
        size += len(lines[shown])
        shown += 1
    if shown == first:
        note = f"[line {first + 1} has {len(lines[first])} characters and is cut; set max_chars for more]"
        return Observation(f"{lines[first][: arguments.max_chars]}\n{note}", cut=False)
    content = "".join(lines[first:shown])
    if first == 0 and shown == len(lines):
        return Observation(content, cut=False)
    rest = "" if shown == len(lines) else f"; go on with offset={shown + 1}"
    return Observation(f"{content.rstrip()}\n[lines {first + 1} to {shown} of {len(lines)}{rest}]", cut=False)


def write(arguments: Write, context: Context) -> Observation:
    name = context.workspace.check_write(arguments.path, arguments.content)
    lines = len(arguments.content.splitlines())
    return Observation(f"wrote {name} ({lines} lines)", writes={name: arguments.content})


def edit(arguments: Edit, context: Context) -> Observation:
    return _change(arguments.path, [arguments], context)


def multi_edit(arguments: MultiEdit, context: Context) -> Observation:
    return _change(arguments.path, arguments.edits, context)


def _change(path: str, changes: list[Change] | list[Edit], context: Context) -> Observation:
    text = context.workspace.read(path)
    told = []
    for number, change in enumerate(changes, 1):
        label = f"edit {number} of {len(changes)}: " if len(changes) > 1 else ""
        try:
            text, line = _replace(text, change)
        except UsageError as error:
            raise UsageError(f"{label}{path}: {error}; nothing was changed") from None
        told.append(f"{label}{path} changed at line {line}")
    name = context.workspace.check_write(path, text)
    return Observation("\n".join(told), writes={name: text})


def _replace(text: str, change: Change) -> tuple[str, str]:
    old, count = change.old_string, text.count(change.old_string)
    lines = [str(text[:at].count("\n") + 1) for at in _positions(text, old)]
    if count == 0:
        raise UsageError(f"old_string does not occur{_closest(text, old)}")
    if count > 1 and not change.replace_all:
        raise UsageError(
            f"old_string occurs {count} times (lines {', '.join(lines[:8])}); take in more of what is around it, "
            "or set replace_all"
        )
    if old == change.new_string:
        raise UsageError("old_string and new_string are the same")
    return text.replace(old, change.new_string), ", ".join(lines[:8])


def _positions(text: str, part: str) -> list[int]:
    found: list[int] = []
    at = text.find(part)
    while at >= 0 and len(found) < 9:
        found.append(at)
        at = text.find(part, at + len(part))
    return found


def _closest(text: str, old: str) -> str:
    """What the file holds instead, judged by the first line that says something."""
    wanted = next((line.strip() for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()[:5000]
    near = difflib.get_close_matches(wanted, [line.strip() for line in lines], 1, 0.6) if len(wanted) < 400 else []
    if not near:
        return "; read the file again"
    number = next(n for n, line in enumerate(lines, 1) if line.strip() == near[0])
    return f"; line {number} is close: {lines[number - 1]!r}"


FILES: list[Tool[Any]] = [
    Tool("read", "Read a text file, or some lines of it.", Read, read, {"path": "kernels/fused.cpp"}),
    Tool(
        "write",
        "Write a text file; an existing one is replaced.",
        Write,
        write,
        {"path": "kernels/fused.cpp", "content": "…"},
    ),
    Tool(
        "edit",
        "Replace one passage of a file.",
        Edit,
        edit,
        {"path": "kernels/fused.cpp", "old_string": "i += 1", "new_string": "i += 8"},
    ),
    Tool(
        "multi_edit",
        "Replace several passages of a file, all or none.",
        MultiEdit,
        multi_edit,
        {"path": "model_new.py", "edits": [{"old_string": "a", "new_string": "b"}]},
    ),
]
