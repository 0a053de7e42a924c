"""`evaluate --sanitize`: one call of a solution under a sanitizer, whose findings become checks of the verdict.

The sanitizer runs in the sandbox beside the solution, so that what it says is claimed: a solution could hide a finding,
not another's. An invalid access makes a correct verdict a `runtime_error`, since what a kernel reads or writes outside
of its memory is nobody's business but luck; a race is a flag, since the outputs were right and the tool cannot tell
every harmless one. Findings in kernels of torch's and NVIDIA's libraries change no status.
"""

from __future__ import annotations

import os
import re
import shutil

from cuda_agent.errors import CudaAgentError
from cuda_agent.judge import Judge
from cuda_agent.judge.builds import BuiltSolution
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.settings import Settings
from cuda_agent.profiling import address_sanitizer, compute_sanitizer
from cuda_agent.profiling.driver import Order
from cuda_agent.profiling.findings import Finding, Looked, listed
from cuda_agent.profiling.process import run_driver
from cuda_agent.runtime import KernelError
from cuda_agent.solution import Solution
from cuda_agent.verdict import Check, Speedup, Status, Times, Verdict

_LOOKED_AT = (Status.CORRECT, Status.WRONG, Status.RUNTIME_ERROR)
_VENDOR = re.compile(
    r"(at|c10|cub|cutlass|cudnn|cublas\w*|thrust)::|(cublas|cudnn|cask|gemm|[sd]gemm|ampere_|volta_|sm\d+_)"
)


class Sanitizer:
    """An `Inspect` for `Judge.evaluate`."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def __call__(
        self, verdict: Verdict, prepared: Prepared, built: BuiltSolution, solution: Solution, settings: Settings
    ) -> Verdict:
        if verdict.status not in _LOOKED_AT:
            return verdict
        order = Order("", "", "solution", "once", settings.device, settings.precision, settings.mode, warmup=0)
        try:
            with self.judge.quiet().exclusive():
                on_gpu = settings.device.startswith("cuda")
                look = self._on_gpu if on_gpu else self._on_cpu
                seen = look(prepared, built, solution, order)
        except (CudaAgentError, KernelError) as error:
            seen = [Looked("sanitizer", why=str(error).splitlines()[0])]
        return with_findings(verdict, seen, solution)

    def _on_gpu(self, prepared: Prepared, built: BuiltSolution, solution: Solution, order: Order) -> list[Looked]:
        seen = []
        checks: list[compute_sanitizer.Check] = ["memcheck", "racecheck"]
        for check in checks:
            tool = compute_sanitizer.tool(check)
            if tool is None:
                return [Looked("compute-sanitizer", why="it is not installed; it comes with the CUDA toolkit")]
            if check == "racecheck" and not shares_memory(solution):
                continue
            limit = compute_sanitizer.TIMEOUT_S
            ran = run_driver(self.judge.workers(), prepared.folder, built, order, tool=tool, timeout_s=limit)
            seen.append(compute_sanitizer.looked(ran, check))
        return seen

    def _on_cpu(self, prepared: Prepared, built: BuiltSolution, solution: Solution, order: Order) -> list[Looked]:
        workers = self.judge.workers()
        if not any(kernel.endswith((".cpp", ".cc", ".cxx")) for kernel in solution.kernels):
            return [Looked(address_sanitizer.NAME, why="it has no C++ kernels of its own under kernels/")]
        if not workers.isolate:
            return [Looked(address_sanitizer.NAME, why="it needs the sandbox's namespaces")]
        folder = workers.folder("sanitized-")
        try:
            tool = address_sanitizer.tool()
            entries = address_sanitizer.instrumented(built, solution.kernels, folder)
            limit = address_sanitizer.TIMEOUT_S
            ran = run_driver(workers, prepared.folder, built, order, tool=tool, timeout_s=limit, entries=entries)
            return [address_sanitizer.looked(ran)]
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def with_findings(verdict: Verdict, seen: list[Looked], solution: Solution) -> Verdict:
    """The verdict with what was seen in it."""
    checks, flags = list(verdict.checks), list(verdict.flags)
    invalid: list[Finding] = []
    for looked in seen:
        name = f"sanitize: {looked.tool}"
        if looked.why:
            checks.append(Check(name=name, passed=None, detail=looked.why, source="claimed"))
            flags.append(f"not sanitized: {looked.tool}: {looked.why}")
            continue
        found = looked.of("memory") + looked.of("race")
        detail = listed(found) if found else "nothing found in one call"
        checks.append(Check(name=name, passed=not found, detail=detail, source="claimed"))
        invalid += [finding for finding in looked.of("memory") if is_own(finding, solution)]
        flags += [f"{looked.tool}: {f}" for f in found if f not in invalid][:2]
    update: dict[str, object] = {"checks": checks, "flags": list(dict.fromkeys(flags))}
    if invalid and verdict.correct:
        update |= {"status": Status.RUNTIME_ERROR, "stage": "run", "speedup": Speedup(), "time_us": Times()}
        update["message"] = listed(invalid)
    elif invalid:
        update["message"] = f"{verdict.message}\n{listed(invalid)}"
    return verdict.model_copy(update=update)


def is_own(finding: Finding, solution: Solution) -> bool:
    """Whether a finding is the solution's and not a library's."""
    file = os.path.basename(finding.place.partition(":")[0])
    return file in {os.path.basename(name) for name in solution.files} or not _VENDOR.match(finding.kernel)


def shares_memory(solution: Solution) -> bool:
    """Whether a kernel may use shared memory, the only one that racecheck looks at."""
    words = ("__shared__", "triton", "extern_shared", "cutlass")
    return any(word in text for text in solution.files.values() for word in words)
