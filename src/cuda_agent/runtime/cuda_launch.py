"""Launching `__global__` functions of a cubin: `k.name[grid, block](...)`, `k.name[grid, block, shared_bytes](...)`.

A launch goes to torch's current stream on the device of its tensors. What the driver refuses is an error at once.
Launches count in a kernel's measured time, so each function is generated from its signature, as in `calls.py`.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from cuda_agent.runtime import calls
from cuda_agent.runtime.cuda_device import check, driver, error_text
from cuda_agent.runtime.errors import KernelError
from cuda_agent.runtime.signatures import Function

_CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d", "bool": "?",
}  # fmt: skip
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0  # CU_LAUNCH_PARAM_…
_INVALID_CONTEXT = 201
_MAX_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FREE_SHARED = 48 << 10
_KEPT_CONFIGURATIONS = 256
Dimensions = tuple[int, int, int]


class Cubin:
    """A cubin, given to the driver when the first of its functions is launched."""

    def __init__(self, path: Path, shown: str) -> None:
        self.path, self.shown = path, shown

    @cached_property
    def _library(self) -> ctypes.c_void_p:
        image, library = self.path.read_bytes(), ctypes.c_void_p()
        code = driver().cuLibraryLoadData(ctypes.byref(library), image, None, None, 0, None, None, 0)
        check(driver(), code, f"{self.shown}: loading it")
        return library

    def kernel(self, symbol: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        code = driver().cuLibraryGetKernel(ctypes.byref(found), self._library, symbol.encode())
        check(driver(), code, f"{self.shown}: finding {symbol}")
        return found


class Launcher:
    """One `__global__` function; `launcher[grid, block]` is what takes its arguments."""

    def __init__(self, cubin: Cubin, function: Function) -> None:
        self._cubin, self._function = cubin, function
        self._configured: dict[Any, Callable[..., None]] = {}
        self.__name__, self.__doc__ = function.name, str(function)

    def __getitem__(self, configuration: Any) -> Callable[..., None]:
        found = self._configured.get(configuration)
        if found is None:
            found = self._configure(configuration)
            if len(self._configured) < _KEPT_CONFIGURATIONS:
                self._configured[configuration] = found
        return found

    def __call__(self, *_: Any) -> None:
        raise TypeError(
            f"{self._function.name} is a __global__ function: launch it as {self._function.name}[grid, block](…)"
        )

    def _configure(self, configuration: Any) -> Callable[..., None]:
        name = self._function.name
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 3:
            raise TypeError(f"{name}[grid, block] or {name}[grid, block, shared_bytes], given {configuration!r}")
        grid, block = _dimensions(name, "grid", parts[0]), _dimensions(name, "block", parts[1])
        shared = parts[2] if len(parts) == 3 else 0
        if not hasattr(shared, "__index__") or shared.__index__() < 0:
            raise TypeError(f"{name}: the bytes of shared memory are a whole number of at least 0, given {shared!r}")
        return _launch(self._kernel, self._function, grid, block, shared.__index__(), self._cubin.shown)

    @cached_property
    def _kernel(self) -> ctypes.c_void_p:
        return self._cubin.kernel(self._function.symbol or self._function.name)


def _dimensions(name: str, what: str, value: Any) -> Dimensions:
    parts = value if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(parts) <= 3 or not all(hasattr(part, "__index__") for part in parts):
        raise TypeError(f"{name}: {what} is a whole number or up to three of them, given {value!r}")
    numbers = [part.__index__() for part in parts]
    if any(not 0 < number < 1 << 31 for number in numbers):
        raise ValueError(f"{name}: every dimension of {what} is at least 1, given {value!r}")
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


_SOURCE = """
def call(*args):
    try:
        {names} = args
        usual = {check}
    except Exception:
        usual = False
    if usual:
        launch({device}, {passed})
    else:
        careful(args)
"""


def _launch(
    kernel: ctypes.c_void_p, function: Function, grid: Dimensions, block: Dimensions, shared: int, shown: str
) -> Callable[..., None]:
    """A Python function that checks its arguments and launches `kernel` so."""
    submit = _Submit(kernel, function, grid, block, shared, shown)
    scope: dict[str, Any] = {"launch": submit, "careful": _Careful(submit, function)}
    names = [f"a{index}" for index in range(len(function.parameters))]
    pairs = list(zip(names, function.parameters, strict=True))
    pointers = [name for name, parameter in pairs if parameter.kind == "pointer"]
    checks = [calls.fast_check(name, parameter, scope, "cuda") for name, parameter in pairs]
    checks += [f"{name}.get_device() == {pointers[0]}.get_device()" for name in pointers[1:]]
    passed = [f"{name}.data_ptr()" if p.kind == "pointer" else name for name, p in pairs]
    device = f"{pointers[0]}.get_device()" if pointers else "None"
    source = _SOURCE.format(
        names=f"[{', '.join(names)}]", check=" and ".join(checks) or "True", passed=", ".join(passed), device=device
    )
    return calls.defined(source, scope, function)


class _Submit:
    """Packs the arguments as C lays them out and hands them to the driver."""

    def __init__(
        self, kernel: ctypes.c_void_p, function: Function, grid: Dimensions, block: Dimensions, shared: int, shown: str
    ) -> None:
        codes = [_CODES[p.dtype] if p.kind == "scalar" else "P" for p in function.parameters]
        self._packer = struct.Struct("@" + "".join(codes))
        self._kernel, self._name, self._shown = kernel, function.name, shown
        self._sizes = (*grid, *block, shared)
        self._local = threading.local()
        self._raised: set[int] = set()
        self._off = calls.kernels_disabled()
        self._order = driver().cuLaunchKernel

    def __call__(self, device: int | None, *values: Any) -> None:
        if self._off:
            return
        if device is None:
            device = torch.cuda.current_device()
        try:
            buffer, extra, _ = self._local.made
        except AttributeError:
            buffer, extra, _ = self._local.made = _parameters(self._packer.size)
        self._packer.pack_into(buffer, 0, *values)
        if torch._C._cuda_getDevice() != device:
            with torch.cuda.device(device):
                self._submit(device, extra)
        else:
            self._submit(device, extra)

    def _submit(self, device: int, extra: Any) -> None:
        if self._sizes[6] > _FREE_SHARED and device not in self._raised:
            self._allow_shared(device)
        stream = torch._C._cuda_getCurrentRawStream(device)
        code = self._order(self._kernel, *self._sizes, stream, None, extra)
        if code == _INVALID_CONTEXT:  # a thread in which nothing of torch has run yet
            torch.cuda.set_device(device)
            code = self._order(self._kernel, *self._sizes, stream, None, extra)
        if code:
            grid, block, shared = self._sizes[:3], self._sizes[3:6], self._sizes[6]
            raise KernelError(
                f"{self._shown}: launching {self._name}[{grid}, {block}, {shared}] failed: {error_text(driver(), code)}"
            )

    def _allow_shared(self, device: int) -> None:
        shared = self._sizes[6]
        code = driver().cuKernelSetAttribute(_MAX_SHARED, shared, self._kernel, device)
        check(driver(), code, f"{self._shown}: {self._name} with {shared} bytes of shared memory")
        self._raised.add(device)


def _parameters(size: int) -> tuple[Any, Any, Any]:
    """A buffer for packed arguments, the list that tells the driver of it, and its length, to be kept with them."""
    buffer = ctypes.create_string_buffer(max(size, 1))
    length = ctypes.c_size_t(size)
    extra = (ctypes.c_void_p * 5)(
        _BUFFER_POINTER, ctypes.addressof(buffer), _BUFFER_SIZE, ctypes.addressof(length), _END
    )
    return buffer, extra, length


class _Careful:
    """Converts any arguments that have one meaning; else raises what names the argument."""

    def __init__(self, submit: _Submit, function: Function) -> None:
        self._submit, self._function = submit, function

    def __call__(self, args: tuple[Any, ...]) -> None:
        values = calls.converted(self._function, args, "cuda")
        devices = {arg.get_device() for arg in args if isinstance(arg, torch.Tensor)}
        if len(devices) > 1:
            raise ValueError(f"{self._function.name}(): its tensors lie on several devices: {sorted(devices)}")
        self._submit(devices.pop() if devices else None, *[0 if value is None else value for value in values])
