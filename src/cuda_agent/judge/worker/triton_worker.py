"""Triton in a worker, before the candidate's first line."""

from __future__ import annotations

import contextlib
import os
import shutil

from cuda_agent.runtime import triton_driver

COMPILED_AHEAD = "/prebuilt/triton"


def prepare(mode: str, without_kernels: bool) -> None:
    """`mode` is a `TritonMode`; Triton interprets if the environment says so, which is so before it is imported."""
    import triton.language  # noqa: F401  its libraries belong to the machine, not to the candidate

    if mode != "launched":
        triton_driver.stand_in()
    if without_kernels:
        triton_driver.leave_out_launches()
    with contextlib.suppress(OSError):
        if os.path.isdir(COMPILED_AHEAD):
            shutil.copytree(COMPILED_AHEAD, os.environ["TRITON_CACHE_DIR"], symlinks=True, dirs_exist_ok=True)
