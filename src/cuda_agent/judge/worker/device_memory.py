"""Memory of a device that the parent makes and its workers open: inputs, parameters and outputs cross here.

It is made by the driver's virtual memory calls, whose handles are file descriptors, so that it crosses namespaces and
each piece is an allocation of its own. For the device `cpu` it is a memory file: the same protocol on host memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Sequence
from typing import Any

import torch

from cuda_agent.runtime.cuda_device import check, driver
from cuda_agent.sandbox import linux

_PINNED, _DESCRIPTOR, _DEVICE, _READ_WRITE = 1, 1, 1, 3
_OUT_OF_MEMORY = 2
_u64, _size = ctypes.c_uint64, ctypes.c_size_t


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp of cuda.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class DeviceMemory:
    """`size` bytes on `device`; with a `descriptor`, what another process made. Raises MemoryError where there is no
    more, and KernelError where the driver refuses.

    `bytes` is a flat uint8 tensor; the memory is given back when the last view of it is gone.
    """

    def __init__(self, size: int, device: str, descriptor: int | None = None) -> None:
        self.size = max(size, 4096)
        place = torch.device(device)
        if place.type == "cpu":
            if descriptor is None:
                descriptor = linux.memory_file(self.size)
            self.bytes = torch.frombuffer(mmap.mmap(descriptor, self.size), dtype=torch.uint8)
        else:
            owner = _Mapped(self.size, place.index or 0, descriptor)
            descriptor = owner.descriptor
            self.bytes = torch.as_tensor(owner, device=place)
        self.descriptor = descriptor
        self.address = self.bytes.data_ptr()

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self.bytes = self.bytes[:0].clone()


def copy_many(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copies flat, contiguous tensors of the same dtypes, by kernels: one for many small ones, one for each large one.
    The driver takes up to half a millisecond for a copy of its own into memory that is shared between processes."""
    small: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for target, source in zip(targets, sources, strict=True):
        size = source.numel() * source.element_size()
        if size >= _LARGE:
            unit = torch.int64 if (target.data_ptr() | source.data_ptr() | size) % 8 == 0 else torch.uint8
            torch.bitwise_or(source.view(unit), 0, out=target.view(unit))
        elif size:
            small[0].append(target)
            small[1].append(source)
    if small[0]:
        torch._foreach_copy_(*small)


_LARGE = 256 << 10


class _Mapped:
    """A mapping of device memory into this process, which torch keeps alive as long as a tensor lies in it."""

    def __init__(self, size: int, index: int, descriptor: int | None) -> None:
        self._address, self._length, self._driver, self._index = 0, 0, driver(), index
        torch.zeros(1, device=f"cuda:{index}")  # makes the device's context current in this thread
        where = _Location(_DEVICE, index)
        what = _Properties(_PINNED, _DESCRIPTOR, where)
        unit, handle, address = _size(), _u64(), _u64()
        self._do("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(what), 0)
        self._length = -(-size // unit.value) * unit.value
        if descriptor is None:
            made = self._driver.cuMemCreate(ctypes.byref(handle), _size(self._length), ctypes.byref(what), _u64(0))
            if made == _OUT_OF_MEMORY:
                raise MemoryError(f"the device has no {self._length} bytes left")
            check(self._driver, made, "allocating device memory")
            number = ctypes.c_int()
            self._do("cuMemExportToShareableHandle", ctypes.byref(number), handle, _DESCRIPTOR, _u64(0))
            self.descriptor = number.value
        else:
            self._do("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), _DESCRIPTOR)
            self.descriptor = descriptor
        try:
            self._do("cuMemAddressReserve", ctypes.byref(address), _size(self._length), _size(0), _u64(0), _u64(0))
            self._do("cuMemMap", address, _size(self._length), _size(0), handle, _u64(0))
            self._address = address.value
            access = _Access(where, _READ_WRITE)
            self._do("cuMemSetAccess", address, _size(self._length), ctypes.byref(access), _size(1))
        finally:
            self._do("cuMemRelease", handle)  # the mapping keeps it
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (self._address, False), "strides": None, "version": 3,
        }  # fmt: skip

    def _do(self, name: str, *arguments: Any) -> None:
        check(self._driver, getattr(self._driver, name)(*arguments), f"sharing device memory ({name})")

    def __del__(self) -> None:
        if self._address:
            with contextlib.suppress(Exception):
                torch.cuda.synchronize(self._index)
            self._driver.cuMemUnmap(_u64(self._address), _size(self._length))
            self._driver.cuMemAddressFree(_u64(self._address), _size(self._length))
