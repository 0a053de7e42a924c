"""Building a candidate's kernels in the sandbox before any of its code runs; only the trusted side fills the cache."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_agent.backends import backend_for
from cuda_agent.errors import BuildError, MachineError, SolutionError
from cuda_agent.judge.rejected import Rejected, cleaned, rejected
from cuda_agent.judge.triton_mode import TritonMode, mode_on
from cuda_agent.judge.triton_mode import environment as triton_environment
from cuda_agent.judge.worker.pool import Worker, WorkerFault
from cuda_agent.judge.workers import SOLUTION, Workers
from cuda_agent.runtime import BuildCache
from cuda_agent.sandbox import Finished, Limits, SandboxedRunner
from cuda_agent.sandbox.runner import give_to
from cuda_agent.solution import Solution
from cuda_agent.verdict import Status

BUILD_LIMITS = Limits(memory_bytes=8 << 30, scratch_bytes=2 << 30, processes=128)
PREBUILT = "/prebuilt"
MAX_EXTENSION_BYTES = 512 << 20
EXTENSION_TIMEOUT_S = 300.0


@dataclass
class BuiltSolution:
    """The solution's folder on this machine and the cache entries that its workers see."""

    folder: Path
    entries: dict[str, str]
    seconds: float
    cached: bool
    extensions: bool
    """It builds a torch extension when it is imported (`load_inline`)."""
    environment: dict[str, str]
    triton: TritonMode = ""
    writable: Mapping[str, str] = field(default_factory=dict)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def build(
    workers: Workers,
    solution: Solution,
    cache: BuildCache,
    require_sandbox: bool,
    device: str = "cpu",
    timeout_s: float = 120.0,
) -> BuiltSolution:
    """Raises Rejected with status build_error, or judge_error where this machine cannot build."""
    started = time.monotonic()
    fault = solution.syntax_error()
    if fault is not None:
        raise Rejected(Status.BUILD_ERROR, "build", fault)
    folder = workers.folder("solution-")
    solution.write(folder)
    sandboxed = SandboxedRunner(limits=BUILD_LIMITS, require=require_sandbox)

    def runner(argv: Sequence[str], **how: Any) -> Finished:
        return sandboxed(argv, **{**how, "timeout_s": min(timeout_s, how["timeout_s"])})

    entries: dict[str, str] = {}
    cached = True
    try:
        for kernel in solution.kernels:
            built = backend_for(kernel).build(folder, kernel, cache=cache, runner=runner)
            if built.library is not None:
                entry = built.library.parent
                entries[str(entry)] = f"{PREBUILT}/entries/{entry.name}"
            cached = cached and built.cached
    except (BuildError, SolutionError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Rejected(Status.BUILD_ERROR, "build", cleaned(str(error), str(folder))) from None
    except MachineError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Rejected(Status.JUDGE_ERROR, "build", str(error)) from None
    triton = mode_on(device) if solution.triton else ""
    extensions = any("cpp_extension" in text for name, text in solution.files.items() if name.endswith(".py"))
    if extensions:
        try:
            cached = _build_extensions(workers, solution, folder, entries, cache, device, triton) and cached
        except Rejected:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    environment = _environment(workers, entries, triton)
    return BuiltSolution(folder, entries, time.monotonic() - started, cached, extensions, environment, triton)


def _environment(workers: Workers, entries: Mapping[str, str], triton: TritonMode) -> dict[str, str]:
    """Where a worker finds what was built; without namespaces a folder of links stands for `/prebuilt`."""
    more = triton_environment(workers, triton)
    if workers.isolate:
        return {"CUDA_AGENT_PREBUILT": PREBUILT, "CUDA_AGENT_CACHE": "/tmp/cache", **more}
    folder = workers.folder("prebuilt-")
    (folder / "entries").mkdir()
    for entry in entries:
        (folder / "entries" / Path(entry).name).symlink_to(entry)
    return {"CUDA_AGENT_PREBUILT": str(folder), "CUDA_AGENT_CACHE": str(folder / "own"), **more}


def _build_extensions(
    workers: Workers,
    solution: Solution,
    folder: Path,
    entries: dict[str, str],
    cache: BuildCache,
    device: str,
    triton: TritonMode,
) -> bool:
    """Lets a worker of its own import the solution, which builds its torch extensions into a folder that only this
    solution's later workers see: what untrusted code wrote there can fool nobody else."""
    kept = cache.root / "solutions" / solution.id
    known = kept.is_dir()
    if not known:
        made = workers.folder("extensions-", for_sandbox=True)
        environment = {
            **_environment(workers, entries, triton),
            "CUDA_AGENT_CACHE": workers.inside(made, "/built"),
        }
        worker = workers.candidate(folder, environment, dict(entries), device, {str(made): "/built"})
        _import_in(worker, workers.inside(folder, SOLUTION), folder, extensions=True, triton=triton)
        give_to(made, os.geteuid()) if os.geteuid() == 0 else None
        if size_of(made) > MAX_EXTENSION_BYTES:
            shutil.rmtree(made, ignore_errors=True)
            raise Rejected(Status.BUILD_ERROR, "build", "its extensions take more than 512 MiB")
        kept = keep(made, kept)
    for entry in sorted((kept / "entries").glob("*")):
        if entry.is_dir() and not entry.is_symlink():
            entries[str(entry)] = f"{PREBUILT}/entries/{entry.name}"
    return known


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder that a worker wrote to, without following its links."""
    return sum(file.lstat().st_size for file in folder.rglob("*"))


def keep(made: Path, kept: Path) -> Path:
    """Moves the folder into the cache; where that cannot be written it stays where it is."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        waiting = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copytree(made, waiting, symlinks=True)
        os.replace(waiting, kept)
    except OSError:
        return made
    shutil.rmtree(made, ignore_errors=True)
    return kept


def import_once(workers: Workers, built: BuiltSolution) -> None:
    """Imports the solution in a worker of its own, on the CPU. Raises Rejected with what that raises."""
    worker = workers.candidate(built.folder, built.environment, built.entries, "cpu")
    inside = workers.inside(built.folder, SOLUTION)
    _import_in(worker, inside, built.folder, extensions=built.extensions, triton=built.triton)


def _import_in(worker: Worker, inside: str, folder: Path, extensions: bool, triton: TritonMode) -> None:
    try:
        worker.ask("load", timeout_s=EXTENSION_TIMEOUT_S, precision="fp32", rules="any", disable_kernels=False,
                   extensions=extensions, triton=triton, folder=inside)  # fmt: skip
    except WorkerFault as fault:
        found = rejected(fault, "build", "importing model_new.py", worker.output.text())
        message = cleaned(found.message, str(folder))
        status = Status.BUILD_ERROR if "Error building extension" in message else found.status
        raise Rejected(status, "build", message) from None
    finally:
        worker.kill()
