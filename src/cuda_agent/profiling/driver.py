"""The program that is profiled: loads one side of a task, calls it, says how that went in `result.json`.

It runs in the sandbox, behind a tool (`ncu`, `compute-sanitizer`, AddressSanitizer) or alone under torch's profiler.
Task and solution share its process, and both can make it say anything: what comes out is *claimed*. It goes into
profiles, which are for the solution's writer, and never into a status that is better for it, a reward or a time.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from cuda_agent.errors import TaskError
from cuda_agent.judge import task_module
from cuda_agent.judge.worker import harness
from cuda_agent.runtime.calls import watch_kernels

RESULT = "result.json"
OWN = "kernel: "
"""Before the name of a kernel of the solution's own among torch's operators."""
MAX_ROWS = 200
TIMED_S, TIMED_CALLS = 1.0, 50
TRACED_CALLS = 3
_ADDED = ("aten::resolve_", "cudaDeviceSynchronize", "ProfilerStep", "Activity Buffer")
"""What the profiler itself brings along."""


@dataclass(frozen=True)
class Order:
    """`how`: `mark` one call for ncu after `warmup` ones, `once` make one call only, `trace` calls under torch's
    profiler (and, of the reference, count the operations of its matrix products and convolutions)."""

    task: str
    solution: str
    side: Literal["solution", "reference"]
    how: Literal["mark", "once", "trace"]
    device: str
    precision: str
    mode: str
    extensions: bool = False
    warmup: int = 3

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(text: str) -> None:
    order = Order(**json.loads(text))
    target = Path(RESULT).absolute()
    try:
        found = _run(order)
    except TaskError as error:
        found = {"fault": "task", "message": str(error)}
    except BaseException as error:
        found = {"fault": order.side, **harness.describe_exception(error)}
    target.write_text(json.dumps(found), encoding="utf-8")
    sys.exit(1 if "fault" in found else 0)


def _run(order: Order) -> dict[str, Any]:
    torch.set_grad_enabled(False)
    device = torch.device(order.device)
    model, inputs = _sides(order, device)

    def call() -> None:
        model(*inputs)
        _wait(device)

    for _ in range(order.warmup):
        call()
    match order.how:
        case "mark":
            return _marked(call)
        case "once":
            call()
            return {}
        case "trace":
            flops = _flops(call) if order.side == "reference" else None
            return {"call_us": _timed(call), "rows": _traced(call, device), "flops": flops}


def _sides(order: Order, device: torch.device) -> tuple[Callable[..., Any], list[Any]]:
    """The model that is asked for and the arguments of its call; the solution with the reference's parameters."""
    dtype = harness.set_precision(order.precision)
    module = task_module.load(Path(order.task))
    inputs = harness.cast_floats(list(task_module.make_inputs(module, 0, device)), dtype)
    reference = task_module.make_model(module, 0, device)
    reference.train(order.mode == "train")
    harness.cast_model(reference, dtype)
    if order.side == "reference":
        return reference, inputs
    watch_kernels(_named)
    if order.extensions:
        from cuda_agent.backends import inline

        inline.install()
    sys.path.insert(0, order.solution)
    os.chdir(order.solution)
    arguments, named = task_module.init_arguments(module)
    harness.seed_everything(0)
    model = importlib.import_module("model_new").ModelNew(*arguments, **named)
    if isinstance(model, torch.nn.Module):
        model.train(order.mode == "train")
        harness.cast_model(model, dtype)
        model.to(device)
        _copy_state(reference, model)
    if hasattr(model, "prepare"):
        model.prepare()
    return model, inputs


def _copy_state(reference: torch.nn.Module, model: torch.nn.Module) -> None:
    wanted = model.state_dict()
    for name, value in reference.state_dict().items():
        if isinstance(value, torch.Tensor) and name in wanted and wanted[name].shape == value.shape:
            wanted[name].copy_(value)


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, seen by torch's profiler under its own name."""

    def call(*args: Any) -> Any:
        with record_function(OWN + function.__name__):
            return function(*args)

    call.__name__ = function.__name__
    return call


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _marked(call: Callable[[], None]) -> dict[str, Any]:
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    call()
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
    return {}


def _flops(call: Callable[[], None]) -> int | None:
    """None for what the counter, which takes the call apart, cannot run."""
    from torch.utils.flop_counter import FlopCounterMode

    try:
        with FlopCounterMode(display=False) as counter:
            call()
    except Exception:
        return None
    return int(counter.get_total_flops())


def _timed(call: Callable[[], None]) -> float:
    """Microseconds of a call, the median of as many as fit into a second."""
    seconds: list[float] = []
    while len(seconds) < TIMED_CALLS and sum(seconds) < TIMED_S:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e6


def _traced(call: Callable[[], None], device: torch.device) -> list[dict[str, Any]]:
    """For each operator (on a GPU: kernel) its calls and the microseconds of its own in one call of the model."""
    on_gpu = device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as trace:
        for _ in range(TRACED_CALLS):
            call()
    rows = []
    for event in trace.key_averages():
        if on_gpu and str(event.device_type) == "DeviceType.CPU":
            continue
        microseconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        if not event.key.startswith(_ADDED):
            rows.append({"name": event.key, "calls": event.count / TRACED_CALLS, "us": microseconds / TRACED_CALLS})
    return sorted(rows, key=lambda row: -row["us"])[:MAX_ROWS]
