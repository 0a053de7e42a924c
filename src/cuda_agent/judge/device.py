"""The device that is judged on: which one a name means, what a verdict records of it, what its workers need.

Imports torch only where the device is no CPU. The device `cpu:0` is host memory under the protocol for devices; it is
for tests on machines without a GPU.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import time
from typing import Any

from cuda_agent.errors import UsageError

TESTING = "cpu:0"
_WSL = "/dev/dxg"
"""The device file of GPUs under Windows."""


def resolve(name: str) -> str:
    """`cpu` or `cuda:N` for "cpu", "cuda" or "cuda:N". Raises UsageError."""
    if name in ("cpu", TESTING):
        return name
    if not re.fullmatch(r"cuda(:\d+)?", name):
        raise UsageError(f"device {name!r} is unknown; it is cpu, cuda or cuda:N")
    why = _why_not()
    if why is not None:
        raise UsageError(f"device {name!r} cannot be used: {why}")
    import torch

    index, count = int(name.partition(":")[2] or 0), torch.cuda.device_count()
    if index >= count:
        raise UsageError(f"device {name!r}: there {'is 1 GPU' if count == 1 else f'are {count} GPUs'} (cuda:0 and up)")
    return f"cuda:{index}"


def has_driver() -> bool:
    """Cheap, so that torch is not imported in vain."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists(_WSL)


@functools.cache
def _why_not() -> str | None:
    """Why there is no usable GPU, in one line."""
    if not has_driver():
        return "there is no NVIDIA GPU, or its driver is not loaded (nvidia-smi says more)"
    import torch

    if torch.version.cuda is None:
        return f"this torch ({torch.__version__}) is built without CUDA; install a CUDA build from pytorch.org"
    try:
        torch.zeros(1, device="cuda")
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return None


def environment(device: str) -> dict[str, str]:
    """For a worker: it sees this device only, and builds for it."""
    if device == TESTING:
        return {}
    from cuda_agent.runtime.cuda_device import architecture

    index = int(device.partition(":")[2])
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    found = {"CUDA_VISIBLE_DEVICES": visible[index] if visible else str(index), "CUDA_AGENT_ARCH": architecture()}
    found |= {name: os.environ[name] for name in ("CUDA_DEVICE_ORDER",) if name in os.environ}
    return {**found, "CUDA_CACHE_PATH": "/tmp/.nv", "CUDA_MODULE_LOADING": "LAZY"}


def inside(device: str) -> str:
    """What the device is called in a worker, which sees no other."""
    return "cuda:0" if device.startswith("cuda") else device


def files(device: str) -> list[str]:
    """Device nodes of the driver that a worker needs."""
    if device == TESTING:
        return []
    return sorted(path for path in glob.glob("/dev/nvidia*") + glob.glob(_WSL) if not os.path.isdir(path))


def describe(device: str) -> dict[str, Any]:
    """What a verdict records of a GPU."""
    properties = _properties(device)
    return {
        "type": "cuda",
        "name": properties.name,
        "architecture": f"sm_{properties.major}{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_gib": round(properties.total_memory / 2**30, 1),
        "l2_mib": round(getattr(properties, "L2_cache_size", 0) / 2**20, 1),
        "driver": _driver_version(),
    }


@functools.cache
def _properties(device: str) -> Any:
    import torch

    return torch.cuda.get_device_properties(device)


@functools.cache
def _driver_version() -> str | None:
    try:
        with open("/proc/driver/nvidia/version") as file:
            found = re.search(r"\b(\d+\.\d+(\.\d+)?)\b", file.read())
    except OSError:
        return None
    return found.group(1) if found else None


def state(device: str) -> dict[str, Any]:
    """Clocks in MHz, temperature in degrees Celsius and reasons for throttling just now; nothing without NVML."""
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{_properties(device).uuid}")
        return {
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "celsius": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "throttling": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) & ~_IDLE,
        }
    except pynvml.NVMLError:
        return {}


_IDLE = 1
CHANGING = ("sm_mhz", "memory_mhz", "celsius", "throttling")
"""What `state` adds to a description."""


def probe(device: str) -> float:
    """Seconds that a few short kernels take one after the other; more while another process uses the device."""
    if device == TESTING:
        return 1.0
    import torch

    with torch.cuda.device(device):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(4):
            torch.cuda._sleep(400_000)  # type: ignore[no-untyped-call]  # clock cycles: a kernel of fixed length
            torch.cuda.synchronize()
        return time.perf_counter() - start


@functools.cache
def bandwidth(device: str) -> float:
    """Bytes per second, those read and those written, of the best of a few large copies on the device."""
    import torch

    source = torch.ones(1 << 28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    if device == TESTING:
        start = time.perf_counter()
        target.copy_(source)
        return 2 * len(source) / (time.perf_counter() - start)
    seconds: list[float] = []
    for _ in range(8):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize(device)
        seconds.append(float(begin.elapsed_time(end)) * 1e-3)
    return 2 * len(source) / min(seconds)


def l2_bytes(device: str) -> int:
    return 0 if device == TESTING else int(getattr(_properties(device), "L2_cache_size", 0)) or 64 << 20


def release(device: str) -> None:
    """Gives memory back that this process holds in reserve: its workers need it."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()


def free_bytes(device: str) -> int:
    """Of the device's memory, what nobody uses now."""
    if device == TESTING:
        return 1 << 30
    import torch

    return int(torch.cuda.mem_get_info(device)[0])
