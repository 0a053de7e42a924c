"""Profiling one solution of one task: what the whole call needs, then what each kernel does.

Nsight Compute where it is and may count; else torch's profiler, which knows times only. Nothing here says whether the
solution is right: that is `evaluate`'s.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cuda_agent.errors import CudaAgentError, MachineError, TaskError
from cuda_agent.judge import Judge
from cuda_agent.judge import device as devices
from cuda_agent.judge.builds import BuiltSolution, build
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import InvalidTask
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.timing import floor_s
from cuda_agent.profiling import advice, kernels, ncu, roofline
from cuda_agent.profiling.driver import Order
from cuda_agent.profiling.process import Ran, SolutionFailed, Tool, run_driver
from cuda_agent.profiling.profile import Call, Ceilings, Counters, Kernel, Profile
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status

Progress = Callable[[str], None]

DRIVER_TIMEOUT_S, NCU_TIMEOUT_S = 120.0, 240.0
MAX_KERNELS = 20


def profile(
    judge: Judge, task: Task, solution: Solution, settings: Settings, progress: Progress = lambda stage: None
) -> Profile:
    """Raises TaskError for a task that cannot be judged, SolutionFailed for a solution that does not build or run, and
    MachineError where this machine lacks what it takes."""
    progress("task")
    try:
        prepared = judge.prepared(task, settings)
    except InvalidTask as error:
        raise TaskError(str(error)) from None
    if isinstance(prepared, InvalidTask):
        raise TaskError(str(prepared))
    missing = [name for name, active in prepared.guards.items() if not active]
    if missing and judge.sandbox == "require":
        raise MachineError(
            f"the sandbox lacks {', '.join(missing)} and was required; `cuda-agent doctor` says how to get it"
        )
    progress("build")
    try:
        built = build(judge.workers(), solution, judge.cache, judge.sandbox == "require", settings.device)
    except Rejected as end:
        raise (MachineError if end.status is Status.JUDGE_ERROR else SolutionFailed)(end.message) from None
    try:
        with judge.quiet().exclusive():
            return Profiling(judge, prepared, built, settings, progress).of(solution)
    finally:
        built.remove()


class Profiling:
    """One solution that is built, and the machine for itself."""

    def __init__(
        self, judge: Judge, prepared: Prepared, built: BuiltSolution, settings: Settings, progress: Progress
    ) -> None:
        self.judge, self.prepared, self.built, self.settings = judge, prepared, built, settings
        self.progress = progress
        self.notes: list[str] = []
        self.order = Order(
            "", "", "solution", "trace", device=settings.device, precision=settings.precision, mode=settings.mode
        )

    def of(self, solution: Solution) -> Profile:
        settings = self.settings
        self.progress("ceilings")
        ceilings = roofline.ceilings(settings.device)
        self.progress("solution")
        traced = self._run(self.order).checked("ModelNew")
        own, counters = kernels.from_rows(traced.get("rows")), _TORCH
        times_us = sum(kernel.time_us for kernel in own) or None
        if settings.device.startswith("cuda"):
            self.progress("ncu")
            counted = self._counted(ceilings)
            own, counters = (counted, _NCU) if counted else (own, counters)
        else:
            self.notes.append(
                "hardware counters need a GPU; times of operators and own kernels are from torch's profiler"
            )
        self.progress("reference")
        reference = self._run(replace(self.order, side="reference")).checked("the reference")
        call = self._call(ceilings, traced, reference, times_us)
        found = Profile(
            task=self.prepared.task.id,
            solution=solution.id,
            device=settings.device,
            precision=settings.precision,
            mode=settings.mode,
            counters=counters,
            ceilings=ceilings,
            call=call,
            kernels=own[:MAX_KERNELS],
            reference=kernels.from_rows(reference.get("rows"))[:MAX_KERNELS],
            notes=self.notes,
        )
        return found.model_copy(update={"advice": advice.on_the_call(found)})

    def _counted(self, ceilings: Ceilings) -> list[Kernel]:
        """The kernels with ncu's counters; empty, and a note says why, where there are none."""
        tool = ncu.tool()
        if tool is None:
            self.notes.append("no counters: ncu (Nsight Compute) is not installed; times are from torch's profiler")
            return []
        ran = self._run(replace(self.order, how="mark"), tool=tool, timeout_s=NCU_TIMEOUT_S)
        launches = ncu.parse(ran.files.get(ncu.LOG, ""))
        found = kernels.from_launches(launches)
        if not found:
            self.notes.append(f"no counters: {ncu.why_nothing(ran)}; times are from torch's profiler")
            return []
        if len(launches) >= ncu.MAX_LAUNCHES:
            self.notes.append(f"only the first {ncu.MAX_LAUNCHES} launches of the call were counted")
        multiprocessors = int(devices.describe(self.settings.device)["multiprocessors"])
        return [advice.judged(roofline.placed(kernel, ceilings), multiprocessors) for kernel in found]

    def _call(
        self, ceilings: Ceilings, own: dict[str, Any], reference: dict[str, Any], kernels_us: float | None
    ) -> Call:
        floor = floor_s(self.prepared, threads=os.cpu_count() or 1)
        flops = reference.get("flops")
        flops = flops if isinstance(flops, int) else None
        ceiling = ceilings.flops_per_second.get(self.settings.precision) or ceilings.flops_per_second.get("fp32")
        return Call(
            solution_us=_number(own.get("call_us")),
            reference_us=_number(reference.get("call_us")),
            kernels_us=kernels_us if self.settings.device.startswith("cuda") else None,
            floor_us=floor * 1e6 if floor else None,  # 0 where other load hid it
            necessary_bytes=self.prepared.necessary_bytes,
            matmul_flops=flops,
            matmul_us=flops / ceiling * 1e6 if flops and ceiling else None,
        )

    def _run(self, order: Order, *, tool: Tool | None = None, timeout_s: float = DRIVER_TIMEOUT_S) -> Ran:
        return run_driver(self.judge.workers(), self.prepared.folder, self.built, order, tool=tool, timeout_s=timeout_s)


_NCU: Counters = "ncu"
_TORCH: Counters = "torch"


def _number(value: object) -> float | None:
    return value if isinstance(value, float) and value > 0 else None


def words(found: Profile, most: int = 3) -> list[str]:
    """The profile in a few plain lines, for a writer: the slowest kernels and what bounds them."""
    lines = list(found.advice)
    for kernel in found.kernels[:most]:
        head = f"{kernel.name}: {kernel.time_us:.1f} us ({kernel.share:.0%})"
        lines.append(f"{head}; {kernel.advice[0]}" if kernel.advice else head)
        lines += [f"  {line}" for line in kernel.advice[1:]]
    return [*lines, *found.notes]


def try_words(judge: Judge, task: Task, solution: Solution, settings: Settings) -> list[str]:
    """`words` of a profile; one line on why there are none where profiling fails."""
    try:
        return words(profile(judge, task, solution, settings))
    except CudaAgentError as error:
        return [f"no profile: {str(error).splitlines()[0]}"]
