"""bash: any command, in the workspace, through a `Runner`."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import Field

from cuda_agent.agent.tools.base import Arguments, Context, Observation, Tool
from cuda_agent.sandbox import Finished

MAX_SECONDS = 600.0


class Bash(Arguments):
    command: str = Field(min_length=1, description="what bash is to run; python, g++ and the usual tools are there")
    timeout_s: float = Field(60.0, gt=0, le=MAX_SECONDS, description="seconds after which it is killed", strict=False)


def bash(arguments: Bash, context: Context) -> Observation:
    """Exit code, stdout, then stderr. A command that fails is an observation like any other."""
    limit = max(1.0, min(arguments.timeout_s, context.seconds_left))
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    done = context.runner(
        ["bash", "-c", arguments.command], cwd=context.workspace.folder, timeout_s=limit, env={"PATH": path}
    )
    return Observation(_report(done, limit))


def _report(done: Finished, limit: float) -> str:
    if done.timed_out:
        first = f"killed after {limit:.0f} s; what it had printed follows. Set timeout_s for more, up to {MAX_SECONDS}"
    elif done.returncode < 0:
        first = f"killed by signal {-done.returncode}"
    else:
        first = f"exit code {done.returncode}"
    parts = [first, done.stdout.rstrip(), f"stderr:\n{done.stderr.rstrip()}" if done.stderr.strip() else ""]
    return "\n".join(part for part in parts if part)


SHELL = [
    Tool(
        "bash",
        "Run a command in the workspace. There is no network, and nothing outside the workspace can be written; "
        "processes that are left behind are killed.",
        Bash,
        bash,
        {"command": "python -c 'import torch; print(torch.__version__)'"},
    )
]
