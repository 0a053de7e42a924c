"""Building a candidate's kernels in the sandbox before any of its code runs; only the trusted side fills the cache."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.backends import backend_for
from cuda_agent.errors import BuildError, MachineError, SolutionError
from cuda_agent.judge.rejected import Rejected, cleaned
from cuda_agent.judge.workers import Workers
from cuda_agent.runtime import BuildCache
from cuda_agent.sandbox import Limits, SandboxedRunner
from cuda_agent.solution import Solution
from cuda_agent.verdict import Status

BUILD_LIMITS = Limits(memory_bytes=8 << 30, scratch_bytes=2 << 30, processes=128)
PREBUILT = "/prebuilt"


@dataclass
class BuiltSolution:
    """The solution's folder on this machine and the cache entries that its workers see."""

    folder: Path
    entries: dict[str, str]
    seconds: float
    cached: bool

    def environment(self) -> Mapping[str, str]:
        return {"CUDA_AGENT_PREBUILT": PREBUILT, "CUDA_AGENT_CACHE": "/tmp/cache"}

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def build(workers: Workers, solution: Solution, cache: BuildCache, require_sandbox: bool) -> BuiltSolution:
    """Raises Rejected with status build_error, or judge_error where this machine cannot build."""
    started = time.monotonic()
    fault = solution.syntax_error()
    if fault is not None:
        raise Rejected(Status.BUILD_ERROR, "build", fault)
    folder = workers.folder("solution-")
    solution.write(folder)
    runner = SandboxedRunner(limits=BUILD_LIMITS, require=require_sandbox)
    entries: dict[str, str] = {}
    cached = True
    try:
        for kernel in solution.kernels:
            built = backend_for(kernel).build(folder, kernel, cache=cache, runner=runner)
            entry = built.library.parent
            entries[str(entry)] = f"{PREBUILT}/entries/{entry.name}"
            cached = cached and built.cached
    except (BuildError, SolutionError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Rejected(Status.BUILD_ERROR, "build", cleaned(str(error), str(folder))) from None
    except MachineError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Rejected(Status.JUDGE_ERROR, "build", str(error)) from None
    return BuiltSolution(folder, entries, time.monotonic() - started, cached)
