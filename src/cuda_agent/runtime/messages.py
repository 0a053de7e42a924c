"""What the writer of a kernel needs of g++'s output: the first errors, each with its own line and caret.

Warnings, notes and include chains stay in the log. An error inside a system header is shown where the writer's own
source led to it. Positions are `file:line:column`, relative to the solution's folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

MAX_ERRORS = 5
MAX_LINE = 400
_PLACE = r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)?"
_HEADER = re.compile(rf"^{_PLACE} (?P<kind>fatal error|error|Error|warning|note|sorry, unimplemented): (?P<text>.*)$")
_REQUIRED = re.compile(rf"^{_PLACE}\s+(?:recursively )?required (?:from|by)")
_INCLUDED = re.compile(r"^(?:In file included| +)\s*from (?P<file>[^:\n]+):(?P<line>\d+)")
_MACRO = re.compile(r"in expansion of macro '(?P<name>\w+)'")
_DRIVER = re.compile(r"^(?:\S*/)?(?:g\+\+|cc1plus|c\+\+|as|ld|collect2)[^:]*: (?:fatal )?error: (?P<text>.*)$")
_LINKER = re.compile(
    r"(?P<text>undefined reference to .*|multiple definition of [^;]*|cannot find .*|relocation .* can not be used.*)$"
)
_IN_FUNCTION = re.compile(r"in function `(?P<name>[^']+)'")


@dataclass(frozen=True)
class _Place:
    file: str
    line: int
    column: int | None = None

    @property
    def local(self) -> bool:
        return not self.file.startswith(("/", "<"))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + ("" if self.column is None else f":{self.column}")


@dataclass(frozen=True)
class _Error:
    place: _Place
    kind: str
    text: str
    led_here: _Place | None
    snippet: tuple[str, ...] = field(default=())


def cut(log: str, main: str, files: Mapping[str, bytes], returncode: int = 1, limit: int = MAX_ERRORS) -> str:
    """The first `limit` errors of `log`, in an editor's form; `main` is the source that was compiled."""
    shown = [_shown(error, files) for error in _errors(log.splitlines())] or _other(log, main)
    shown = list(dict.fromkeys(shown))
    if not shown:
        tail = "\n".join(line[:MAX_LINE] for line in log.strip().splitlines()[-8:])
        return f"{main}: error: the compiler ended with status {returncode}" + (f":\n{tail}" if tail else "")
    more = len(shown) - limit
    return "\n".join(shown[:limit]) + (f"\n… and {more} more error{'s' * (more > 1)}" if more > 0 else "")


def _errors(lines: list[str]) -> Iterator[_Error]:
    """Errors with their snippet; `led_here` is the last local place that the lines before named."""
    led_here: _Place | None = None
    for index, line in enumerate(lines):
        led = _INCLUDED.match(line) or _REQUIRED.match(line)
        if led:
            place = _place(led)
            led_here = place if place.local else led_here
            continue
        match = _HEADER.match(line)
        if not match:
            continue
        if match["kind"] not in ("warning", "note"):
            snippet = tuple(_snippet(lines, index + 1))
            instantiated = led_here if _instantiation(lines, index) or not _place(match).local else None
            error = _Error(_place(match), match["kind"], match["text"], instantiated, snippet)
            yield replace(error, text=error.text + _macro(lines, index + 1 + len(snippet)))
        led_here = None


def _place(match: re.Match[str]) -> _Place:
    column = match.groupdict().get("column")
    return _Place(match["file"], int(match["line"]), int(column) if column else None)


def _snippet(lines: list[str], start: int) -> Iterator[str]:
    """The source line and its caret (g++ prints more for hints and ranges)."""
    for line in lines[start : start + 2]:
        if not re.match(r"^ *\d* \|", line):
            return
        yield line[:MAX_LINE]


def _instantiation(lines: list[str], index: int) -> bool:
    return index > 0 and bool(_REQUIRED.match(lines[index - 1]))


def _macro(lines: list[str], start: int) -> str:
    """Where the macro stands whose expansion the error is in, if g++'s first note says so."""
    for line in lines[start : start + 4]:
        match = _HEADER.match(line)
        if match and match["kind"] == "note":
            macro = _MACRO.search(match["text"])
            return f" (in macro {macro['name']}, used at {_place(match)})" if macro else ""
    return ""


def _shown(error: _Error, files: Mapping[str, bytes]) -> str:
    kind, text = "fatal error" if error.kind == "fatal error" else "error", error.text[:MAX_LINE]
    if error.place.local:
        led = f" (instantiated at {error.led_here})" if error.led_here else ""
        snippet = error.snippet or _own_line(error.place, files)
        return "\n".join([f"{error.place}: {kind}: {text}{led}", *snippet])
    if "/include/" not in error.place.file:
        # what was included here is no header: its words are not repeated
        kind, text = "error", "what is included is no C++ source"
    header = "<" + re.sub(r"^.*/include/(?:c\+\+/\d+/)?", "", error.place.file) + ">"
    if error.led_here is None:
        return f"{header}:{error.place.line}: {kind}: {text}"
    return "\n".join([f"{error.led_here}: {kind}: {text} (in {header})", *_own_line(error.led_here, files)])


def _own_line(place: _Place, files: Mapping[str, bytes]) -> list[str]:
    lines = files.get(place.file, b"").decode("utf-8", "replace").splitlines()
    if not 0 < place.line <= len(lines):
        return []
    shown = [f"{place.line:5} | {lines[place.line - 1]}"[:MAX_LINE]]
    if place.column is not None:
        shown.append(f"      | {' ' * (place.column - 1)}^")
    return shown


def _other(log: str, main: str) -> list[str]:
    """Errors of the linker and the driver, which have no position in the source."""
    found: list[str] = []
    driver: list[str] = []
    function = ""
    for line in log.splitlines():
        named = _IN_FUNCTION.search(line)
        function = named["name"] if named else function
        linker, other = _LINKER.search(line), _DRIVER.match(line)
        if linker:
            where = f" (in function '{function}')" if function else ""
            found.append(f"{main}: error: {linker['text'].replace('`', chr(39))[:MAX_LINE]}{where}")
        elif other and "ld returned" not in line:
            driver.append(f"{main}: error: {other['text'][:MAX_LINE]}")
    return found or driver
