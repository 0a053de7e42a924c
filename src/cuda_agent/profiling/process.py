"""Running the driver in the sandbox, alone or behind a tool, and reading what it left there.

The sandbox is that of the judge's workers: no network but its own loopback, a bare environment, no privileges, the
task and the solution read-only, one folder to write to. What lies in that folder was written by somebody else.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuda_agent.errors import CudaAgentError, MachineError, TaskError
from cuda_agent.judge import device as devices
from cuda_agent.judge.builds import BuiltSolution
from cuda_agent.judge.rejected import cleaned
from cuda_agent.judge.workers import SOLUTION, TASK, Workers, memory_limit
from cuda_agent.profiling.driver import RESULT, Order
from cuda_agent.sandbox import Finished, Limits, SandboxedRunner

MAX_FILE_BYTES = 32 << 20
_START = "import sys; sys.path.insert(0, {root!r}); from cuda_agent.profiling.driver import main; main(sys.argv[1])"
_ROOT = str(Path(__file__).resolve().parent.parent.parent)


class SolutionFailed(CudaAgentError):
    """The solution's own code failed while it was profiled."""


@dataclass(frozen=True)
class Tool:
    """A program that starts the driver: its arguments before it, the files it leaves, the host paths it needs."""

    argv: Sequence[str] = ()
    files: Sequence[str] = ()
    readable: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    reserving: bool = False


@dataclass(frozen=True)
class Ran:
    finished: Finished
    result: dict[str, Any] | None
    """What the driver says; None where it did not come to its end."""
    files: Mapping[str, str]

    def checked(self, doing: str) -> dict[str, Any]:
        """The result. Raises TaskError, SolutionFailed or MachineError, each with one line on what went wrong."""
        result = self.result
        if self.finished.timed_out:
            raise SolutionFailed(f"{doing} took too long and was stopped")
        if result is None:
            last = (self.finished.stderr.strip().splitlines() or [f"exit code {self.finished.returncode}"])[-1]
            raise SolutionFailed(f"{doing} ended the process: {cleaned(last)}")
        if "fault" not in result:
            return result
        message = cleaned(str(result.get("message", "")))
        if result["fault"] != "solution":
            raise TaskError(message)
        if result.get("type") in ("CompilerMissing", "BuildNeeded"):
            raise MachineError(message)
        frames = result.get("frames")
        where = f" ({frames[-1]})" if isinstance(frames, list) and frames else ""
        raise SolutionFailed(f"{doing} raised {result.get('type', 'an error')}: {message}{where}")


def run_driver(
    workers: Workers,
    task_folder: Path,
    built: BuiltSolution,
    order: Order,
    *,
    tool: Tool | None = None,
    timeout_s: float,
    entries: Mapping[str, str] | None = None,
) -> Ran:
    """One run of the driver; `order`'s folders and device are filled in. `entries`: in the place of what was built."""
    tool = tool or Tool()
    where = workers.folder("profile-", for_sandbox=True)
    device, on_gpu = order.device, order.device.startswith("cuda")
    order = replace(
        order,
        task=workers.inside(task_folder, TASK),
        solution=workers.inside(built.folder, SOLUTION),
        device=devices.inside(device),
        extensions=built.extensions,
    )
    placed = {str(task_folder): TASK, str(built.folder): SOLUTION, **(built.entries if entries is None else entries)}
    runner = SandboxedRunner(
        limits=Limits(memory_bytes=memory_limit(), reserving=tool.reserving),
        isolate=workers.isolate,
        readable=(*tool.readable, *(devices.files(device) if on_gpu else ())),
        placed=placed,
        loopback=True,
    )
    environment = {**(devices.environment(device) if on_gpu else {}), **built.environment, **(tool.environment or {})}
    argv = [*tool.argv, sys.executable, "-I", "-c", _START.format(root=_ROOT), order.to_json()]
    try:
        finished = runner(argv, cwd=where, timeout_s=timeout_s, env=environment)
        files = {name: text for name in tool.files if (text := _read(where / name)) is not None}
        return Ran(finished, _parsed(_read(where / RESULT)), files)
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _read(path: Path) -> str | None:
    """The text of a plain file, no link (which might lead to what its writer may not read), of a sensible size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")


def _parsed(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
