"""The parent's few loops over large buffers, in C++ (`native.cpp`), built once and kept in the build cache."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cuda_agent.errors import MachineError


@functools.cache
def _library() -> ctypes.CDLL:
    from cuda_agent.runtime import BuildCache, KernelError, build, read_tree

    try:
        folder = Path(__file__).parent
        path = build(read_tree(folder / "native.cpp", folder), cache=BuildCache.from_environment()).library
    except KernelError as error:
        raise MachineError(f"the judge's own helper does not build: {error}") from None
    library = ctypes.CDLL(str(path))
    pointer, i64 = ctypes.c_void_p, ctypes.c_int64
    library.copy_cold.argtypes = [pointer, pointer, i64]
    library.blend.argtypes = [pointer, pointer, pointer, i64, i64, ctypes.c_uint64]
    library.compare.argtypes = [pointer, pointer, pointer, i64, pointer, pointer, pointer]
    library.compare.restype = i64
    library.outside.argtypes = [pointer, pointer, i64, ctypes.c_double]
    library.outside.restype = i64
    library.same.argtypes = [pointer, pointer, i64]
    library.same.restype = ctypes.c_int32
    library.probe.argtypes = [i64, ctypes.c_int32]
    library.probe.restype = ctypes.c_double
    library.read_seconds.argtypes = [pointer, i64, ctypes.c_int32]
    library.read_seconds.restype = ctypes.c_double
    for name in ("copy_cold", "blend"):
        getattr(library, name).restype = None
    return library


def load() -> None:
    """Builds the helper if need be. Raises MachineError where there is no compiler."""
    _library()


def copy_cold(to: int, source: int, length: int) -> None:
    """Copies `length` bytes between addresses; the target is left in main memory, not in a cache."""
    _library().copy_cold(to, source, length)


def blend(out: npt.NDArray[np.uint8], a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], size: int, seed: int) -> None:
    """Fills `out` with runs of elements (`size` bytes each) of `a` and `b` at secret places."""
    _library().blend(out.ctypes.data, a.ctypes.data, b.ctypes.data, out.nbytes // size, size, seed % (1 << 64))


@dataclass(frozen=True)
class Mismatch:
    """`count` elements out of bounds, the flat index of the first and of the worst, and how many bounds that is off."""

    count: int
    first: int
    worst: int
    excess: float


def compare(
    want: npt.NDArray[np.float64], bound: npt.NDArray[np.float64], got: npt.NDArray[np.float64]
) -> Mismatch | None:
    """None if every element lies within its bound; see native.cpp for NaN and infinities. All flat and contiguous."""
    first, worst, excess = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_double()
    count = _library().compare(
        want.ctypes.data,
        bound.ctypes.data,
        got.ctypes.data,
        want.size,
        ctypes.addressof(first),
        ctypes.addressof(worst),
        ctypes.addressof(excess),
    )
    return Mismatch(count, first.value, worst.value, excess.value) if count else None


def outside(want: npt.NDArray[np.float64], got: npt.NDArray[np.float64], share: float) -> int:
    """How many elements of `got` are off by more than `share` of |want| + RMS(want). All flat and contiguous."""
    return int(_library().outside(want.ctypes.data, got.ctypes.data, want.size, share))


def same(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> bool:
    """Whether two flat, contiguous buffers hold the same bytes."""
    return a.nbytes == b.nbytes and bool(_library().same(a.ctypes.data, b.ctypes.data, a.nbytes))


def probe(rounds: int, threads: int) -> float:
    """Seconds a fixed loop takes on so many threads at once (the slowest): longer when something else runs."""
    return float(_library().probe(rounds, threads))


def read_seconds(length: int, threads: int) -> float:
    """Seconds so many threads need to read a buffer of `length` bytes that is as warm as its size allows."""
    buffer = np.ones(max(length, 64), np.uint8)
    return float(_library().read_seconds(buffer.ctypes.data, length, threads))
