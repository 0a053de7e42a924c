"""glob and grep: finding files and lines of the workspace.

grep's pattern comes from a policy and may take for ever to match, so it runs as a program of its own with a time limit.
"""

from __future__ import annotations

import fnmatch
import json
import sys
from typing import Any

from pydantic import Field

from cuda_agent.agent.tools.base import Arguments, Context, Observation, Tool
from cuda_agent.errors import UsageError

GREP_SECONDS = 10.0
_SCRIPT = r"""
import json, re, sys
wanted = json.load(sys.stdin)
try:
    pattern = re.compile(wanted["pattern"], re.IGNORECASE if wanted["ignore_case"] else 0)
except (re.error, RecursionError, OverflowError) as error:
    sys.exit(f"the pattern is no regular expression: {error}")
found = 0
for name in wanted["files"]:
    try:
        with open(name, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if pattern.search(line):
                    found += 1
                    if found <= wanted["limit"]:
                        print(f"{name}:{number}: {line.rstrip()[:400]}")
    except (OSError, UnicodeDecodeError):
        continue
print(f"[{found} lines]" if found <= wanted["limit"] else f"[{found} lines, the first {wanted['limit']} are shown]")
"""


class Glob(Arguments):
    pattern: str = Field(min_length=1, description="such as **/*.cpp; * matches any part of a path")


class Grep(Arguments):
    pattern: str = Field(min_length=1, description="a regular expression of Python")
    files: str = Field("*", description="glob of the files to search, such as kernels/*.cpp")
    ignore_case: bool = False
    limit: int = Field(100, ge=1, le=1000, description="lines at most")


def glob(arguments: Glob, context: Context) -> Observation:
    names = _matching(arguments.pattern, context)
    if not names:
        everything = _matching("*", context)
        return Observation(f"no file matches {arguments.pattern}; there are: {', '.join(everything[:50])}")
    return Observation("\n".join(names))


def grep(arguments: Grep, context: Context) -> Observation:
    wanted = {**arguments.model_dump(), "files": _matching(arguments.files, context)}
    argv = [sys.executable, "-I", "-S", "-c", _SCRIPT]
    done = context.runner(argv, cwd=context.workspace.folder, timeout_s=GREP_SECONDS, stdin=json.dumps(wanted))
    if done.timed_out:
        raise UsageError(f"grep took more than {GREP_SECONDS:.0f} s; give a simpler pattern or fewer files")
    if done.returncode != 0:
        raise UsageError(done.stderr.strip()[-500:] or f"grep ended with code {done.returncode}")
    return Observation(done.stdout.rstrip())


def _matching(pattern: str, context: Context) -> list[str]:
    """Names of files that match; hidden ones only where the pattern names them."""
    pattern = pattern.removeprefix("./")
    alternatives: set[str] = {pattern, pattern.replace("**/", "")}
    names = sorted(context.workspace.name(path) for path in context.workspace.walk())
    seen = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in alternatives)]
    return [name for name in seen if pattern.startswith(".") or not any(part[0] == "." for part in name.split("/"))]


SEARCH: list[Tool[Any]] = [
    Tool("glob", "List the workspace's files that match a pattern.", Glob, glob, {"pattern": "**/*.cpp"}),
    Tool("grep", "Search the workspace's files for a pattern.", Grep, grep, {"pattern": "omp parallel"}),
]
