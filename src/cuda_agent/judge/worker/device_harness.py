"""What a worker does otherwise where the tensors lie on a device.

Its outputs are copied into an outbox, memory of the parent's own, since the parent opens nothing that a worker made.
Calls come in turns: many on inputs that lie ready, one after the other as a program makes them, and one answer after
the last byte of their outputs has arrived in the outbox. As all of this process it belongs to the candidate.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

import torch

from cuda_agent.judge.worker.device_memory import DeviceMemory, copy_many
from cuda_agent.judge.worker.harness import Harness, Region, plain, span_bytes
from cuda_agent.runtime.cuda_device import driver

_PERSISTING_L2 = 6
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE"""


class _OnDevice(Harness):
    """Comes before a kind of harness in the order of its methods."""

    outbox: torch.Tensor | None = None
    results: list[Any]
    form: list[Any] | None = None
    places: list[torch.Tensor]
    """Of outputs of this form in the outbox."""
    set_aside = 0
    """Bytes of the L2 cache for lines that stay, as far as the driver does not let this be zero."""

    def on_attach(self, request: dict[str, Any]) -> dict[str, Any]:
        memory = DeviceMemory(request["size"], str(self.device), request["descriptor"])
        if request["what"] == "outbox":
            self.outbox, self.form = memory.bytes, None
        else:
            self.region = Region(memory.bytes)
        os.close(request["descriptor"])
        return {"base": memory.address}

    def on_signature(self, request: dict[str, Any]) -> dict[str, Any]:
        self.results = []
        for wait in (self._wait_for_stream, self._wait) * 2:  # the first of each takes longer
            wait()
        if self.device.type == "cuda":  # some of it is set aside from the start
            driver().cuCtxSetLimit(_PERSISTING_L2, ctypes.c_size_t(0))
            self.set_aside = self._persisting_l2()
        return super().on_signature({**request, "room": 0})

    def on_turn(self, request: dict[str, Any]) -> dict[str, Any]:
        """Calls, one for each of `slots`. Replies once their outputs lie in the outbox, `stride` bytes apart."""
        assert self.model is not None
        model, inputs = self.model, self.inputs
        earlier = [] if request["lean"] else self.results  # outputs do not lie where those of the last turn did
        self.results, self.shown = [], []
        start = time.perf_counter()
        results = [model(*inputs[slot]) for slot in request["slots"]]
        self._wait_for_stream()
        seconds = time.perf_counter() - start
        self._wait()
        left = time.perf_counter() - start - seconds
        sent = self._send(results, request["stride"])
        self._wait()
        self.results = results
        del earlier
        reply = {
            "nonce": request["nonce"],
            "span": seconds,
            "left": left,
            "sent": sent,
            "persisting": self._persisting_l2() - self.set_aside,
        }
        if _has_numbers(results[0]):
            reply["trees"] = [self.describe(result)["tree"] for result in results]
        return reply

    def on_release(self, request: dict[str, Any]) -> dict[str, Any]:
        """Gives back what memory it can."""
        self.results, self.shown = [], []
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return {}

    def on_show(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the calls of these numbers returned."""
        return {"calls": [self.describe(self.results[number]) for number in request["numbers"]]}

    def on_deliver(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copies the tensors of a call, or those that were shown last, into the outbox."""
        if "number" in request:
            self.describe(self.results[request["number"]])
        assert self.outbox is not None
        row = [_flat(tensor, self.device) for tensor in self.shown]
        copy_many(_places(self.outbox, 0, row), row)
        self._wait()
        return {}

    def describe(self, value: Any, with_extra: bool = True) -> dict[str, Any]:
        reply = super().describe(value, with_extra)
        self._wait()
        return reply

    def _send(self, results: list[Any], stride: int) -> bool:
        """Copies the results' tensors into the outbox, `stride` bytes apart, with as few kernels as can be."""
        extra = [getattr(owner, name) for owner, name in self.extra_outputs]
        rows = [[_flat(tensor, self.device) for tensor in (*_tensors(result), *extra)] for result in results]
        form = [stride, *[(t.dtype, t.numel()) for row in rows for t in row]]
        if form != self.form:
            if self.outbox is None or stride * len(rows) > len(self.outbox):
                return False
            if any(sum(_padded(t.numel() * t.element_size()) for t in row) > stride for row in rows):
                return False
            self.places = [p for i, row in enumerate(rows) for p in _places(self.outbox, i * stride, row)]
            self.form = form
        sources = [tensor for row in rows for tensor in row]
        copy_many(self.places, sources)
        return True

    def _wait_for_stream(self) -> None:
        """As a program that uses the outputs would: for the current stream alone."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def _persisting_l2(self) -> int:
        """Bytes of the L2 cache that this process has set aside for lines that stay."""
        if self.device.type != "cuda":
            return 0
        size = ctypes.c_size_t()
        driver().cuCtxGetLimit(ctypes.byref(size), _PERSISTING_L2)
        return size.value

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def on_device(kind: type[Harness], device: str) -> type[Harness]:
    return type(kind.__name__, (_OnDevice, kind), {"device": torch.device(device)})


def _flat(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """All that lies between the tensor's first and last element."""
    usual = tensor.layout is torch.strided and tensor.device.type == device.type and tensor.dtype in _USUAL
    if usual and tensor.is_contiguous() and not tensor.is_neg():
        return tensor.detach().view(-1)
    tensor = plain(tensor, device)
    return tensor.as_strided((span_bytes(tensor) // tensor.element_size(),), (1,))


_USUAL = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32)


def _places(outbox: torch.Tensor, at: int, row: list[torch.Tensor]) -> list[torch.Tensor]:
    """Where in the outbox the tensors go that begin at `at`."""
    found = []
    for tensor in row:
        length = tensor.numel() * tensor.element_size()
        found.append(outbox[at : at + length].view(tensor.dtype))
        at += _padded(length)
    return found


def _padded(length: int) -> int:
    return (length + 63) // 64 * 64


def _tensors(value: Any) -> list[torch.Tensor]:
    """In the order in which `describe` lists them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for child in value for tensor in _tensors(child)]
    if isinstance(value, dict):
        return [tensor for child in value.values() for tensor in _tensors(child)]
    return []


def _has_numbers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_numbers, value))
    if isinstance(value, dict):
        return any(map(_has_numbers, value.values()))
    return isinstance(value, bool | int | float)
