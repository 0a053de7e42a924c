"""Compiling a candidate's Triton kernels before it is judged, in a worker that launches none of them.

What Triton compiles depends on a call's arguments, so one call is made. Errors of the compiler are found here, without
a GPU too, and later workers start with what was compiled. They must learn nothing else from this one, whose folder
holds whatever its code writes: its inputs are zeros, and its parameters as its own constructor makes them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

from cuda_agent.judge import device as devices
from cuda_agent.judge.builds import MAX_EXTENSION_BYTES, BuiltSolution, keep, size_of
from cuda_agent.judge.candidate import Candidate
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.triton_mode import CACHE, TritonMode
from cuda_agent.judge.worker.triton_worker import COMPILED_AHEAD
from cuda_agent.judge.workers import Workers
from cuda_agent.runtime import BuildCache
from cuda_agent.runtime.triton_driver import architecture
from cuda_agent.sandbox.runner import give_to
from cuda_agent.solution import Solution
from cuda_agent.verdict import Check, Status


def compile_ahead(
    workers: Workers,
    solution: Solution,
    built: BuiltSolution,
    prepared: Prepared,
    settings: Settings,
    cache: BuildCache,
) -> Check:
    """Adds what was compiled to `built`. The check says for which target; `passed` is None where one call without its
    kernels does not come to an end. Raises Rejected with status build_error for what Triton refuses."""
    target = _target(settings.device)
    kept = cache.root / "triton" / _key(solution, prepared, settings, target)
    check = Check(name="triton compiles", passed=True, detail=f"for {target}", source="claimed")
    if not kept.is_dir():
        made = workers.folder("triton-", for_sandbox=True)
        try:
            _call_once(workers, built, made, prepared, settings)
        except Rejected as end:
            shutil.rmtree(made, ignore_errors=True)
            if end.status in (Status.BUILD_ERROR, Status.JUDGE_ERROR):
                raise Rejected(end.status, "build", end.message) from None
            detail = f"for {target}: not tried to its end, since without its kernels {end.message.splitlines()[0]}"
            return check.model_copy(update={"passed": None, "detail": detail})
        if os.geteuid() == 0:
            give_to(made, 0)
        if size_of(made) > MAX_EXTENSION_BYTES:
            shutil.rmtree(made, ignore_errors=True)
            return check
        kept = keep(made, kept)
    if workers.isolate:
        built.entries[str(kept)] = COMPILED_AHEAD
    return check


def _call_once(workers: Workers, built: BuiltSolution, made: Path, prepared: Prepared, settings: Settings) -> None:
    environment = {k: v for k, v in built.environment.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = workers.inside(made, CACHE)
    mode: TritonMode = "launched" if built.triton == "launched" else "compiled"
    ours = replace(built, environment=environment, triton=mode, writable={str(made): CACHE})
    patient = replace(settings, rules="any", first_call_timeout_s=settings.build_timeout_s)
    candidate = Candidate(workers, ours, prepared, patient, disable_kernels=True)
    try:
        candidate.prepare_as_made()
        zeros = prepared.pool[0].replaced([data * 0 for data in prepared.pool[0].data])
        candidate.calls([zeros], [False])
    finally:
        candidate.close()


def _target(device: str) -> str:
    return f"sm_{architecture()}" if not device.startswith("cuda") else str(devices.describe(device)["architecture"])


def _key(solution: Solution, prepared: Prepared, settings: Settings, target: str) -> str:
    versions = [importlib.metadata.version(name) for name in ("triton", "torch")]
    files = sorted(solution.files.items())  # comments too: Triton's own keys and what reads its source depend on them
    parts = [files, prepared.task.id, settings.precision, settings.mode, target, versions]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
