"""Triton where there is no GPU: its interpreter, or compiling without launching; and leaving launches out anywhere.

Triton asks its active driver for the device even where it interprets (autotuning does, and `driver.active` in a
kernel's host code), and fails without a GPU. `stand_in` gives it one that describes a GPU of the architecture to build
for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

DEFAULT_ARCH = 90
"""Compute capability of the stand-in, as with CUDA sources on a machine without a GPU."""
_PROPERTIES = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32}
"""Of such a GPU: what persistent kernels choose their grids by."""


class _Utils:
    def get_device_properties(self, device: int) -> dict[str, int]:
        return dict(_PROPERTIES)


class NoDevice:
    """Stands where Triton's driver of a GPU would. Nothing can be launched through it."""

    utils = _Utils()

    def __init__(self, arch: int) -> None:
        self._arch = arch

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._arch, 32)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one only."""

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Autotuning takes the first configuration: times say nothing here."""
        return lambda call, quantiles=(0.5,), **options: [0.0] * len(quantiles)

    def map_python_to_cpp_type(self, name: str) -> str:
        return name


def architecture() -> int:
    """The compute capability that `CUDA_AGENT_ARCH` names (90 for sm_90a), else DEFAULT_ARCH."""
    found = re.search(r"(\d+)", os.environ.get("CUDA_AGENT_ARCH", ""))
    return int(found[1]) if found else DEFAULT_ARCH


def interprets() -> bool:
    """Whether functions that `triton.jit` decorates from now on are interpreted."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")


def stand_in() -> None:
    """Gives Triton a driver although there is no GPU, once in a process."""
    if stands_in():
        return
    import triton.testing
    from triton.runtime import driver

    driver.set_active(NoDevice(architecture()))
    triton.testing.do_bench = _once
    if interprets():
        from cuda_agent.runtime import triton_interpreter

        triton_interpreter.complete()


def stands_in() -> bool:
    """Whether `stand_in` was called in this process."""
    from triton.runtime import driver

    return isinstance(getattr(driver, "_active", None), NoDevice)


def leave_out_launches() -> None:
    """From now on kernels are compiled, where that is done at all, and do nothing, however they are called."""
    from triton.backends.nvidia.driver import CudaLauncher
    from triton.runtime import autotuner, interpreter, jit

    interpreter.GridExecutor.__call__ = _nothing  # every launch of the interpreter
    CudaLauncher.__call__ = _nothing  # every launch of a compiled kernel
    autotuner.Autotuner.do_bench = property(lambda self: _no_bench if stands_in() else _call_once)
    if stands_in():
        compiled = jit.JITFunction.run

        def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
            kernel = compiled(self, *args, grid=grid, warmup=True, **options)
            _fits(kernel)
            return kernel

        jit.JITFunction.run = run


def _fits(kernel: Any) -> None:
    """What Triton looks at when it loads a kernel: whether it takes more shared memory than the GPU has."""
    from triton.runtime.errors import OutOfResources

    shared, limit = kernel.metadata.shared, _PROPERTIES["max_shared_mem"]
    if architecture() == DEFAULT_ARCH and shared > limit:
        raise OutOfResources(shared, limit, "shared memory")


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _no_bench(call: Callable[[], Any], quantiles: Sequence[float] = (0.5,), **options: Any) -> list[float]:
    return [0.0] * len(quantiles)


def _call_once(call: Callable[[], Any], quantiles: Sequence[float] = (0.5,), **options: Any) -> list[float]:
    """Each configuration is compiled."""
    call()
    return [0.0] * len(quantiles)


def _once(fn: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **options: Any) -> Any:
    """`triton.testing.do_bench` without a GPU: one call, in milliseconds."""
    begun = time.perf_counter()
    fn()
    milliseconds = (time.perf_counter() - begun) * 1e3
    return milliseconds if quantiles is None else [milliseconds] * len(quantiles)
