"""`cuda-agent profile TASK SOLUTION`: what a solution's kernels do, what bounds them, what to try."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_agent.cli import options
from cuda_agent.cli.console import NOT_CORRECT, OK, exit_code, guarded, note, only_json, say, stderr
from cuda_agent.errors import CudaAgentError

if TYPE_CHECKING:
    from cuda_agent.profiling.profile import Kernel, Profile

_STAGES = {
    "task": "running the reference …",
    "build": "building the solution …",
    "ceilings": "measuring what this device can do …",
    "solution": "timing the solution …",
    "ncu": "counting with Nsight Compute …",
    "reference": "timing the reference …",
}
MAX_SHOWN, MAX_REFERENCE = 8, 5


@guarded
def profile(
    task: Annotated[Path, typer.Argument(metavar="TASK", help="A Python file with Model and get_inputs().")],
    solution: Annotated[
        Path, typer.Argument(metavar="SOLUTION", help="A Python file with ModelNew, or a folder with model_new.py.")
    ],
    precision: options.PrecisionOption = options.Precision.fp32,
    mode: options.ModeOption = options.Mode.eval,
    json: options.JsonOption = False,
    sandbox: options.SandboxOption = options.Sandbox.auto,
    device: options.DeviceOption = "cpu",
) -> int:
    """Look into a solution: what bounds each kernel, and what to try. Nothing is judged.

    Exit code: 0 done, 1 the solution does not build or run, 2 unusable input or invalid task, 3 the machine failed, 130
    interrupted.
    """
    chosen = {"precision": precision, "mode": mode, "sandbox": sandbox}
    settings: dict[str, Any] = {name: option.value for name, option in chosen.items()}

    def look(progress: Callable[[str], None] | None = None) -> Profile:
        from cuda_agent.api import profile

        return profile(task, solution, device=device, progress=progress, **settings)

    if json:
        return _as_json(look)
    try:
        with stderr().status("starting …") as status:
            found = look(lambda stage: status.update(_STAGES.get(stage, stage)))
    except CudaAgentError as error:
        note(f"error: {error}", style="red")
        return code_of(error)
    for line in lines(found):
        say(line)
    return OK


def code_of(error: BaseException) -> int:
    from cuda_agent.profiling import SolutionFailed

    return NOT_CORRECT if isinstance(error, SolutionFailed) else exit_code(error)


def _as_json(look: Callable[[], Profile]) -> int:
    """Prints one JSON object, whatever happens: the profile, or `error`."""
    with only_json() as write:
        try:
            text, code = look().to_json(), OK
        except (Exception, KeyboardInterrupt) as error:
            code = code_of(error)
            message = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            if isinstance(error, CudaAgentError | KeyboardInterrupt):
                note(f"error: {message}")
            else:
                sys.excepthook(type(error), error, error.__traceback__)
                message = f"a fault of cuda-agent: {type(error).__name__}: {message}"
            text = json_text.dumps({"error": message})
        write(text)
    return code


def lines(found: Profile) -> Iterator[str]:
    """A profile for a person."""
    from cuda_agent.cli.render import duration

    call = found.call
    times = [("solution", call.solution_us), ("reference", call.reference_us), ("memory floor", call.floor_us)]
    times += [("matrix products at the ceiling", call.matmul_us)]
    yield "one call: " + ", ".join(f"{name} {duration(value)}" for name, value in times if value is not None)
    for line in found.advice:
        yield f"  {line}"
    unit = "kernel" if found.device != "cpu" else "operator or own kernel"
    yield f"{unit}, of the solution:"
    for kernel in found.kernels[:MAX_SHOWN]:
        yield from _kernel(kernel)
    yield f"{unit}, of the reference:"
    for kernel in found.reference[:MAX_REFERENCE]:
        yield from _kernel(kernel)
    if found.ceilings is not None:
        rates = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in found.ceilings.flops_per_second.items())
        yield f"measured ceilings: {found.ceilings.bytes_per_second / 1e9:.0f} GB/s; TFLOP/s: {rates}"
    yield from (f"note: {line}" for line in found.notes)
    yield "Figures of the solution come from its own process; whether it is right, cuda-agent evaluate says."


def _kernel(kernel: Kernel) -> Iterator[str]:
    from cuda_agent.cli.render import duration

    bound = f"  {kernel.bound}" if kernel.bound else ""
    launches = f" x{kernel.launches:.0f}" if kernel.launches > 1 else ""
    yield f"  {duration(kernel.time_us):>9} {kernel.share:>5.0%}{bound}  {kernel.name}{launches}"
    yield from (f"      {line}" for line in (*_figures(kernel), *kernel.advice))


def _figures(kernel: Kernel) -> list[str]:
    """One line of what is known."""
    roof, occupancy, used = kernel.roof, kernel.occupancy, kernel.throughput
    parts: list[tuple[str, float | None, str]] = [
        ("bandwidth", None if roof.memory_share is None else 100 * roof.memory_share, "% of measured"),
        ("arithmetic", None if roof.compute_share is None else 100 * roof.compute_share, "% of measured"),
        ("L1 hits", used.l1_hits, "%"),
        ("L2 hits", used.l2_hits, "%"),
        ("occupancy", occupancy.achieved, f"% (of {occupancy.theoretical or 100:.0f})"),
        ("registers", occupancy.registers, ""),
    ]
    shown = ", ".join(f"{name} {value:.0f} {unit}".rstrip() for name, value, unit in parts if value is not None)
    return [shown] if shown else []
