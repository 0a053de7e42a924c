"""This machine, as a verdict records it and as a stored baseline depends on it."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

from cuda_agent.judge import device as devices
from cuda_agent.judge.settings import Settings
from cuda_agent.task import Task

BASELINE_SCHEMA = 1


@functools.cache
def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def device(name: str = "cpu") -> dict[str, Any]:
    """The device that was judged on, and how busy it was just then."""
    if name.startswith("cuda"):
        return devices.describe(name) | {"load": round(os.getloadavg()[0], 2), **devices.state(name)}
    usable = len(os.sched_getaffinity(0))
    return {
        "type": "cpu",
        "name": _processor(),
        "cores": usable,
        "architecture": platform.machine(),
        "load": round(os.getloadavg()[0], 2),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
    }


@functools.cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for package in ("cuda-agent", "torch", "numpy"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def baseline_key(task: Task, settings: Settings) -> str:
    """What a stored baseline is good for: this task under this contract on this machine with these versions."""
    where = device(settings.device)
    where = {k: v for k, v in where.items() if k not in ("load", *devices.CHANGING)}
    parts = [BASELINE_SCHEMA, task.id, settings.task_key, where, versions()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
