"""What building and launching a CUDA kernel costs. Needs an NVIDIA GPU.

    python benchmarks/cuda_runtime.py [OUT]      prints a table; writes it to OUT as JSON

Each build is of a source that no cache has. A launch is the host's time for it, the median of seven runs of 2000; for a
comparison that holds on noisy machines look at the ratios to `torch.mul(x, 2.0, out=y)`.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from provenance import commit

from cuda_agent.backends import BuildCache
from cuda_agent.backends.cuda import CudaBackend
from cuda_agent.runtime import load_kernels
from cuda_agent.sandbox import Runner, SandboxedRunner, run_plain

KERNEL = """extern "C" __global__ void scale(float* __restrict__ out, const float* __restrict__ x, float s, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = s * x[i] + NUMBER;
}
"""
HOST = """#include <cuda_runtime.h>
extern "C" void run(float* out, const float* x, float s, long n, cudaStream_t stream) {
    scale<<<1, 128, 0, stream>>>(out, x, s, n);
}
"""


def main() -> int:
    rows = {**builds(), **launches()}
    result = {
        "command": "python benchmarks/cuda_runtime.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "device": torch.cuda.get_device_name(),
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda},
        "rows": rows,
    }
    for name, value in rows.items():
        print(f"{name:42} {value:8.3f}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")
    return 0


def builds() -> dict[str, float]:
    """Seconds."""
    found = {}
    runners: list[tuple[str, Runner]] = [("plain", run_plain), ("sandboxed", SandboxedRunner())]
    for name, text in (("device code", KERNEL), ("host code", HOST.replace('extern "C"', KERNEL + 'extern "C"', 1))):
        for how, runner in runners:
            times = [_build(text.replace("NUMBER", f"{time.monotonic_ns() % 1000}.f"), runner) for _ in range(3)]
            found[f"build, {name}, {how}: s"] = statistics.median(times)
    return found


def _build(text: str, runner: Runner) -> float:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernels").mkdir()
        (Path(folder) / "kernels" / "k.cu").write_text(text)
        cache = BuildCache(Path(folder) / "cache")
        return CudaBackend().build(Path(folder), "kernels/k.cu", cache=cache, runner=runner).seconds


def launches() -> dict[str, float]:
    """Microseconds of the host."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cu").write_text((KERNEL + HOST).replace("NUMBER", "0.f"))
        k: Any = load_kernels(Path(folder) / "k.cu")
        x = torch.randn(128, device="cuda")
        y = torch.empty_like(x)
        calls: dict[str, Callable[[], Any]] = {
            "k.scale[1, 128](y, x, 2.0, 128)": lambda: k.scale[1, 128](y, x, 2.0, 128),
            "k.run(y, x, 2.0, 128)": lambda: k.run(y, x, 2.0, 128),
            "torch.mul(x, 2.0, out=y)": lambda: torch.mul(x, 2.0, out=y),
        }
        found = {f"{name}: us": _host_us(call) for name, call in calls.items()}
    base = found["torch.mul(x, 2.0, out=y): us"]
    return found | {f"{name.removesuffix(': us')}: of torch.mul": us / base for name, us in list(found.items())[:2]}


def _host_us(call: Callable[[], Any], count: int = 2000) -> float:
    for _ in range(100):
        call()
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - began) / count * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
