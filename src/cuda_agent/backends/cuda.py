"""CUDA for NVIDIA GPUs: NVRTC or nvcc without torch's headers, also on machines without a GPU."""

from __future__ import annotations

import re
import time
from pathlib import Path

from cuda_agent.backends.base import Built
from cuda_agent.backends.building import built_by, store_signatures
from cuda_agent.backends.cuda_signatures import parse_cuda_signatures, plain_name
from cuda_agent.runtime import CUDA_SUFFIXES, BuildCache, build_cuda
from cuda_agent.sandbox import Runner

_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_USED = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(?P<bytes>\d+) bytes smem")


class CudaBackend:
    name = "cuda"
    suffixes: tuple[str, ...] = CUDA_SUFFIXES

    def build(self, folder: Path, kernel: str, *, cache: BuildCache, runner: Runner) -> Built:
        """See `Backend.build`."""
        started = time.monotonic()
        tree, built, signatures = built_by(build_cuda, parse_cuda_signatures, folder, kernel, cache, runner)
        store_signatures(tree, signatures)
        used = {plain_name(symbol): row for symbol, row in resources(built.log).items()}
        seconds = time.monotonic() - started
        return Built(built.library, signatures.as_data(), built.log, seconds, built.cached, used)


def resources(log: str) -> dict[str, dict[str, int]]:
    """What ptxas says each kernel takes, by its symbol: registers a thread, bytes of shared memory and of spills."""
    found: dict[str, dict[str, int]] = {}
    current: dict[str, int] = {}
    for line in log.splitlines():
        entry = _ENTRY.search(line)
        if entry:
            current = found.setdefault(entry["name"], {"registers": 0, "shared_bytes": 0, "spill_bytes": 0})
        if spills := _SPILLS.search(line):
            current["spill_bytes"] = int(spills["stores"]) + int(spills["loads"])
        if used := _USED.search(line):
            current["registers"] = int(used["registers"])
            shared = _SHARED.search(line)
            current["shared_bytes"] = int(shared["bytes"]) if shared else 0
    return found
