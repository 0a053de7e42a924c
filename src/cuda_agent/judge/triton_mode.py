"""How a candidate's Triton kernels run in its workers, and what a worker has to know of it before it imports Triton."""

from __future__ import annotations

from typing import Literal

from cuda_agent.judge.workers import Workers

TritonMode = Literal["", "interpreted", "compiled", "launched"]
"""By Triton's interpreter; compiled for a GPU and not launched; compiled and launched. Empty without Triton."""
CACHE = "/tmp/triton"
"""Where a worker's Triton keeps what it compiles: in its own scratch, which no other worker sees."""


def mode_on(device: str) -> TritonMode:
    return "launched" if device.startswith("cuda") else "interpreted"


def environment(workers: Workers, mode: TritonMode) -> dict[str, str]:
    if not mode:
        return {}
    cache = CACHE if workers.isolate else str(workers.folder("triton-"))
    return {"TRITON_CACHE_DIR": cache, **({"TRITON_INTERPRET": "1"} if mode == "interpreted" else {})}
