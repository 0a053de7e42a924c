"""What the writer of a kernel needs of nvcc's and NVRTC's output: the first errors, in an editor's form.

Both print `file(line): error: text`, the line and a caret; ptxas has errors of its own, without a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cuda_agent.runtime.messages import MAX_ERRORS, MAX_LINE

_ERROR = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic |fatal )?error(?: #[\w-]+)?: (?P<text>.*)$"
)
_PTXAS = re.compile(r"^(?:ptxas|nvlink)\s+(?:error|fatal)\s*: (?P<text>.*)$")


def cut_nvcc(log: str, main: str, files: Mapping[str, bytes], limit: int = MAX_ERRORS) -> str:
    """The first `limit` errors; empty where there is none of this form."""
    lines = log.splitlines()
    shown = [text for i, line in enumerate(lines) if (text := _shown(line, lines[i + 1 : i + 3], main, files))]
    shown = list(dict.fromkeys(shown))
    more = len(shown) - limit
    return "\n".join(shown[:limit]) + (f"\n… and {more} more error{'s' * (more > 1)}" if more > 0 else "")


def _shown(line: str, following: list[str], main: str, files: Mapping[str, bytes]) -> str | None:
    own = _PTXAS.match(line)
    if own:
        return f"{main}: error: {own['text'][:MAX_LINE]}"
    error = _ERROR.match(line)
    if error is None:
        return None
    file, number, text = error["file"].removeprefix("./"), int(error["line"]), error["text"][:MAX_LINE]
    if file not in files:
        header = re.sub(r"^.*/(?:include|rtc)/", "", file)
        return f"<{header}>:{number}: error: {text}"
    source = files[file].decode("utf-8", "replace").splitlines()
    place = f"{file}:{number}"
    if not 0 < number <= len(source):
        return f"{place}: error: {text}"
    snippet = [f"{number:5} | {source[number - 1]}"[:MAX_LINE]]
    if len(following) == 2 and following[1].strip() == "^":
        # both lines are indented alike, the source line perhaps cut at its start
        indent = len(following[0]) - len(following[0].lstrip())
        begins = len(source[number - 1]) - len(source[number - 1].lstrip())
        column = following[1].index("^") - indent + begins + 1
        place += f":{column}"
        snippet.append(f"      | {' ' * (column - 1)}^")
    return "\n".join([f"{place}: error: {text}", *snippet])
