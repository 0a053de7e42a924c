"""The NVIDIA driver through ctypes: which architecture a device has, loading cubins, launching kernels.

Only `libcuda.so.1` is needed for that. Nothing here makes a context; launches use the one that torch has.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from cuda_agent.runtime.errors import KernelError

DEFAULT_ARCHITECTURE = "sm_90a"
"""What is built for where there is no GPU and CUDA_AGENT_ARCH says nothing."""
_MAJOR, _MINOR = 75, 76
_SUCCESS = 0
_WITH_OWN_INSTRUCTIONS = ("sm_90", "sm_100", "sm_103", "sm_120")
"""Architectures whose `a` variant has instructions that later ones lack; what is built here runs here only anyway."""


@cache
def driver() -> Any:
    """libcuda, initialised. Raises KernelError where there is no driver or no device."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise KernelError("there is no NVIDIA driver here (libcuda.so.1 is missing)") from None
    library.cuLaunchKernel.argtypes = [
        ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    check(library, library.cuInit(0), "starting the NVIDIA driver")
    return library


def check(library: Any, code: int, doing: str) -> None:
    """Raises KernelError with the driver's own words for any code but 0."""
    if code != _SUCCESS:
        raise KernelError(f"{doing} failed: {error_text(library, code)}")


def error_text(library: Any, code: int) -> str:
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    library.cuGetErrorName(code, ctypes.byref(name))
    library.cuGetErrorString(code, ctypes.byref(text))
    spelled = (name.value or b"").decode()
    return f"{(text.value or b'').decode()} ({spelled})" if spelled else f"error {code}"


def architecture() -> str:
    """What kernels are built for: $CUDA_AGENT_ARCH, else that of the first device, else DEFAULT_ARCHITECTURE."""
    return os.environ.get("CUDA_AGENT_ARCH") or _of_the_first_device() or DEFAULT_ARCHITECTURE


@cache
def _of_the_first_device() -> str | None:
    try:
        library = driver()
        device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        check(library, library.cuDeviceGet(ctypes.byref(device), 0), "looking for a GPU")
        for number, attribute in ((major, _MAJOR), (minor, _MINOR)):
            check(library, library.cuDeviceGetAttribute(ctypes.byref(number), attribute, device), "asking the GPU")
    except KernelError:
        return None
    name = f"sm_{major.value}{minor.value}"
    return f"{name}a" if name in _WITH_OWN_INSTRUCTIONS else name
