"""What a tool is, how a call is checked, and how a long output is cut.

A tool never writes files itself: it answers with the observation and the files to be put in place. The loop stores the
observation first, so that a run killed between the two goes on exactly once.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from cuda_agent.agent.policy import ToolSchema
from cuda_agent.agent.workspace import Workspace
from cuda_agent.errors import SolutionError, UsageError
from cuda_agent.sandbox import Runner
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Verdict

if TYPE_CHECKING:
    from cuda_agent.judge import Judge, Settings

MAX_CHARS = 16_000
"""Characters of one observation that a policy is shown; the rest lies in a file."""


class Arguments(BaseModel):
    """Arguments of a tool: strict types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Observation:
    """What a call answers. `ok` is False where the call could not be carried out as it was given."""

    content: str
    ok: bool = True
    writes: Mapping[str, str] = field(default_factory=dict)
    """Files of the workspace that the loop puts in place once the observation is stored."""
    cut: bool = True
    """A long content is cut; False for a tool that has a limit of its own."""


@dataclass(frozen=True)
class Context:
    """What a tool may use. `number` counts the calls of the run from 1; `seconds_left` bounds what it may take."""

    workspace: Workspace
    runner: Runner
    judge: Judge
    task: Task
    settings: Settings
    run: str
    """The run that verdicts belong to."""
    number: int
    seconds_left: float
    record: Callable[[str, Verdict, Solution], Verdict]
    """Stores a verdict (verb, verdict, solution) before anybody sees it."""
    recorded: Verdict | None = None
    """The verdict that this very call had stored before the run was killed."""


@dataclass(frozen=True)
class Tool(Generic[A]):
    name: str
    description: str
    arguments: type[A]
    run: Callable[[A, Context], Observation]
    example: Mapping[str, Any]
    """Arguments of a right call, shown with errors."""

    @property
    def schema(self) -> ToolSchema:
        parameters = self.arguments.model_json_schema()
        parameters.pop("description", None)
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


def call_tool(tools: Sequence[Tool[Any]], name: str, arguments: str, context: Context) -> Observation:
    """Runs one call. Whatever is wrong with it is an observation that says how to mend it."""
    tool = next((t for t in tools if t.name == name), None)
    if tool is None:
        near = difflib.get_close_matches(name, [t.name for t in tools], 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        return Observation(f"error: no tool {name!r}{hint} There are: {', '.join(t.name for t in tools)}.", ok=False)
    try:
        checked = _parse(tool, arguments)
        observation = tool.run(checked, context)
    except (UsageError, SolutionError) as error:
        return Observation(f"error: {error}", ok=False)
    if not observation.cut:
        return observation
    return replace(observation, content=clip(observation.content, name, context))


def _parse(tool: Tool[A], text: str) -> A:
    right = f"A right call: {tool.name}({json.dumps(tool.example)})"
    try:
        given = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 30) : error.pos + 30]
        raise UsageError(
            f"the arguments of {tool.name} are no JSON: {error.msg} at character {error.pos}, near {near!r}. {right}"
        ) from None
    except RecursionError:
        raise UsageError(f"the arguments of {tool.name} are nested too deeply. {right}") from None
    if not isinstance(given, dict):
        raise UsageError(f"the arguments of {tool.name} must be a JSON object, not {type(given).__name__}. {right}")
    try:
        return tool.arguments.model_validate(given)
    except ValidationError as error:
        faults = "; ".join(_fault(tool, row["loc"], row["msg"]) for row in error.errors(include_url=False)[:5])
        raise UsageError(f"wrong arguments for {tool.name}: {faults}. {right}") from None


def _fault(tool: Tool[Any], where: Sequence[int | str], message: str) -> str:
    if message.startswith("Extra inputs"):
        known = ", ".join(tool.arguments.model_fields) or "none"
        message = f"there is no such argument (there are: {known})"
    return f"{'.'.join(str(part) for part in where)}: {message}"


def clip(text: str, name: str, context: Context) -> str:
    """`text`, or its start and end with the file that holds the whole; a last `VERDICT` line stays whole."""
    body, mark, verdict = text.rpartition("\nVERDICT {")
    if not mark:
        body, verdict = text, ""
    if len(body) <= MAX_CHARS:
        return text
    file = context.workspace.keep_output(f"{context.number:04d}-{name}.txt", body)
    head, tail = _whole_lines(body[: MAX_CHARS // 2]), _whole_lines(body[-MAX_CHARS // 2 :][::-1])[::-1]
    missing = len(body) - len(head) - len(tail)
    cut = f"\n[… {missing} characters left out; the whole is in {file}: use read or grep on it …]\n"
    return head + cut + tail + mark + verdict


def _whole_lines(text: str) -> str:
    """`text` without its last, partial line, unless that would lose most of it."""
    cut = text.rfind("\n")
    return text[:cut] if cut > len(text) // 2 else text
