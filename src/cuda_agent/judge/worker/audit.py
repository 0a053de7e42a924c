"""Watching what a candidate calls, for the rules `libraries` and `kernels`.

Rules are policy, not security: this runs in the candidate's process. Operators are recorded below the Python
dispatcher, by the profiler's hook in the dispatcher itself, so that C++ calls and disabled dispatch modes show too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from cuda_agent.judge.worker.harness import RequestError

_baseline: set[str] = set()
_DOORS = ("numpy", "__array__", "__dlpack__", "tolist")
"""Ways of a tensor's elements out of torch, to numpy and to plain Python."""


def before_import(rules: str, without_kernels: bool, triton: str) -> None:
    """Before the candidate's first line: prepares Triton (see `TritonMode`) where the candidate uses it, remembers what
    is loaded, and under rules closes the ways out of torch."""
    if triton:
        from cuda_agent.judge.worker import triton_worker

        triton_worker.prepare(triton, without_kernels)
    _baseline.update(_libraries())
    if rules != "any":
        for name in _DOORS:
            setattr(torch.Tensor, name, _closed)
        torch.from_numpy = _closed
    if without_kernels:
        from cuda_agent.runtime.calls import disable_kernels

        disable_kernels()


def _closed(*_: Any, **__: Any) -> Any:
    raise RequestError("rule", "it computes with numpy or plain Python; the rules allow own kernels, data movement and "
                       "(`libraries`) the vendor's matrix products and convolutions")  # fmt: skip


def observe(call: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """The call's result and how often each operator ran, nested ones under the name of the outermost they are part of
    left out only where that one is allowed by name itself."""
    with torch.autograd.profiler.profile(use_kineto=True, use_cpu=True, experimental_config=_all_threads()) as profile:
        result = call()
    counts: dict[str, int] = {}
    for event in profile.function_events:
        if event.name.startswith(
            ("aten::", "mkldnn::", "quantized::", "prims::", "mkl::", "inductor::", "Torch-Compiled")
        ):
            path = [event.name]
            parent = event.cpu_parent
            while parent is not None:
                path.append(parent.name)
                parent = parent.cpu_parent
            key = " < ".join(path[:6])
            counts[key] = counts.get(key, 0) + 1
    return result, dict(sorted(counts.items())[:500])


def _all_threads() -> Any:
    """Operators that another thread of the candidate runs count as well. None where this torch cannot."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        return None


def foreign() -> list[str]:
    """Shared libraries that came in after the candidate's import began and that the judge did not build."""
    ours = ("/prebuilt/", "/cache/")
    return sorted(path for path in _libraries() - _baseline if not path.startswith(ours))


def _libraries() -> set[str]:
    found = set()
    with open("/proc/self/maps") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")[2]
            if path and (".so" in os.path.basename(path) or "memfd:" in path):
                found.add("/" + path)
    return found
