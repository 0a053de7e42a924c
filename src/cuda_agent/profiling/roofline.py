"""The measured roofline: what the device does at best, by large copies and large matrix products, no data sheet.

A kernel's share of a ceiling is what it reached over what was measured here, at the clocks of this machine. Matrix
products reach less than a data sheet says, so a share may lie slightly above 1.
"""

from __future__ import annotations

import functools
import os
import time

from cuda_agent.judge import device as devices
from cuda_agent.judge import native
from cuda_agent.profiling.profile import Ceilings, Kernel, Roof

_SIZE, _SIZE_FP64, _SIZE_CPU = 8192, 4096, 1024
_TIMES = 5
_COPIED = 1 << 28
_TENSOR = {"fp32": ("fp32", "tf32"), "fp16": ("fp16", "bf16"), "fp64": ("fp64",)}
"""In which arithmetic a ceiling was measured that tells most of the operations that ncu counts under a name."""


@functools.cache
def ceilings(device: str) -> Ceilings:
    """Measures for some tenths of a second, once per process. Needs the device to itself, as all measuring does."""
    if device.startswith("cuda"):
        return Ceilings(bytes_per_second=devices.bandwidth(device), flops_per_second=_gpu_flops(device))
    threads = os.cpu_count() or 1
    seconds = max(1e-9, min(native.read_seconds(_COPIED, threads) for _ in range(2)))
    return Ceilings(bytes_per_second=_COPIED / seconds, flops_per_second={"fp32": _cpu_flops()})


def _gpu_flops(device: str) -> dict[str, float]:
    import torch

    before = torch.get_float32_matmul_precision()
    found = {}
    try:
        for name, dtype, precision, size in (
            ("fp32", torch.float32, "highest", _SIZE),
            ("tf32", torch.float32, "high", _SIZE),
            ("bf16", torch.bfloat16, "highest", _SIZE),
            ("fp16", torch.float16, "highest", _SIZE),
            ("fp64", torch.float64, "highest", _SIZE_FP64),
        ):
            torch.set_float32_matmul_precision(precision)
            found[name] = _gpu_products(device, dtype, size)
    finally:
        torch.set_float32_matmul_precision(before)
    return found


def _gpu_products(device: str, dtype: object, size: int) -> float:
    import torch

    matrix = torch.randn(size, size, device=device).to(dtype)  # type: ignore[call-overload]
    target = torch.empty_like(matrix)
    torch.mm(matrix, matrix, out=target)
    seconds = []
    for _ in range(_TIMES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        torch.mm(matrix, matrix, out=target)
        end.record()
        torch.cuda.synchronize(device)
        seconds.append(float(begin.elapsed_time(end)) * 1e-3)
    return 2.0 * size**3 / min(seconds)


def _cpu_flops() -> float:
    import torch

    matrix = torch.randn(_SIZE_CPU, _SIZE_CPU)
    seconds = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        torch.mm(matrix, matrix)
        seconds.append(time.perf_counter() - start)
    return 2.0 * _SIZE_CPU**3 / min(seconds)


def placed(kernel: Kernel, ceilings: Ceilings) -> Kernel:
    """The kernel with its place under the roofline, as far as its counters are known."""
    seconds = kernel.time_us * 1e-6
    if seconds <= 0:
        return kernel
    memory = kernel.dram_bytes / seconds / ceilings.bytes_per_second if kernel.dram_bytes is not None else None
    shares = []
    for name, count in kernel.flops_by_type.items():
        known = [ceilings.flops_per_second[n] for n in _TENSOR.get(name, ()) if n in ceilings.flops_per_second]
        if known:
            shares.append(count / seconds / known[0])
    intensity = kernel.flops / kernel.dram_bytes if kernel.flops is not None and kernel.dram_bytes else None
    compute = sum(shares) if shares else None
    roof = Roof(intensity=intensity, memory_share=memory, compute_share=compute)
    return kernel.model_copy(update={"roof": roof})
