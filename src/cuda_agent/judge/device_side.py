"""A worker whose tensors lie on a device, and its share of the device's memory.

Inputs are put into memory of this process's own that the worker has mapped too; outputs come back the same way, are
copied at once, and only the copies are looked at. Calls come in turns of many on inputs that are new and elsewhere for
each; this process keeps the clock: from before the worker is woken until its outputs have been copied.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuda_agent.judge import arrays
from cuda_agent.judge import device as devices
from cuda_agent.judge.contents import Batch
from cuda_agent.judge.side import Call, Side, with_inputs
from cuda_agent.judge.values import Bytes, Value
from cuda_agent.judge.worker.device_memory import DeviceMemory
from cuda_agent.judge.worker.pool import Answer, Place, Worker, WorkerFault, Zygote
from cuda_agent.sandbox import Limits

ROUND_UP = 4 << 20


class DeviceWorker(Worker):
    """Asks its worker to copy what it shows into the outbox, and copies from there."""

    def __init__(self, zygote: Zygote, role: str, place: Place, limits: Limits, isolate: bool, device: str) -> None:
        self.device = device
        self.outbox: DeviceMemory | None = None
        super().__init__(zygote, role, place, limits, isolate, devices.inside(device))

    def _settle(self) -> None:
        """Nothing is copied by the keeper, so it needs no snapshot."""

    def need_outbox(self, size: int) -> DeviceMemory:
        """The outbox, made larger if need be. Raises WorkerFault `too_large` where there is no memory for it."""
        if self.outbox is None or self.outbox.size < size:
            if self.outbox is not None:
                self.outbox.close()
                self.outbox = None
            try:
                self.outbox = DeviceMemory(-(-size // ROUND_UP) * ROUND_UP, self.device)
            except (MemoryError, OSError, ValueError):
                raise WorkerFault("too_large", bytes=size) from None
            self._checked(self._attach("outbox", self.outbox), copied=False)
        return self.outbox

    def turn_on(self, request: dict[str, Any], timeout_s: float) -> Answer:
        """A turn; the worker stays awake until `rest`."""
        answer = self._order({"op": "turn", "request": request, "timeout_s": timeout_s}, timeout_s)
        return self._checked(answer, copied=False)

    def rest(self) -> bool:
        """Freezes the worker; False if a process of it could not be stopped."""
        return bool(self._order({"op": "stop"}, 30.0)["frozen"])

    def ask_about(self, op: str, **arguments: Any) -> Answer:
        """A request whose reply only describes tensors."""
        answer = self._order({"op": "ask", "request": {"op": op, **arguments}, "timeout_s": 60.0}, 60.0)
        return self._checked(answer, copied=False)

    def _checked(self, answer: dict[str, Any], copied: bool = True) -> Answer:
        found = super()._checked(answer, copied=False)
        rows = found.reply.get("tensors", []) if copied else []
        if rows:
            sizes = [_size(row) for row in rows]
            outbox = self.need_outbox(sum(map(padded, sizes)))
            self.ask_about("deliver")
            found.data = copies(parts(outbox.bytes, sizes))
        return found

    def kill(self) -> None:
        super().kill()
        if self.outbox is not None:
            self.outbox.close()
            self.outbox = None


@dataclass
class DeviceSide(Side):
    worker: DeviceWorker
    _held: list[list[tuple[int, int]]] = field(init=False, default_factory=list)
    """Where the outputs lie that were compared in the last turn: they are alive until the next one is over."""

    def _memory(self, size: int) -> Any:
        return DeviceMemory(size, self.worker.device)

    def _written(self) -> None:
        wait(self.worker.device)

    def release(self) -> None:
        self.worker.ask("release")
        self._held = []
        devices.release(self.worker.device)

    def calls(self, contents: Sequence[Value], copy: Sequence[bool]) -> list[Call]:
        made: list[Call] = []
        step = 1 if self.layout.changed else len(self.layout.slots)
        if len(contents) == step:
            return self._turn(contents, copy)
        for start in range(0, len(contents), step):
            made += self._turn(contents[start : start + step], copy[start : start + step])
        return made

    def _turn(self, contents: Sequence[Value], copy: Sequence[bool]) -> list[Call]:
        self._restore_buffers()
        slots = [int(i) for i in self._generator.permutation(len(self.layout.slots))[: len(contents)]]
        self._stage(contents, slots)
        stride = padded(self.layout.outputs_bytes) if self.layout.outputs_bytes < UNKNOWN else 0
        stride += 64 * len(self.layout.state.specs) + 4096
        outbox = self.worker.need_outbox(stride * len(contents))
        outbox.bytes.fill_(0xFF)
        nonce = secrets.token_hex(8)
        # earlier outputs stay alive beside these, where there is room, so that memory that is used again is noticed
        lean = self.layout.lean and devices.free_bytes(self.worker.device) < 2 * self.layout.outputs_bytes
        request = {"op": "turn", "slots": slots, "stride": stride, "nonce": nonce, "lean": lean}
        wait(self.worker.device)
        start = time.perf_counter()
        answer = self.worker.turn_on(request, self._timeout_s() * len(contents))
        kept = {i: outbox.bytes[i * stride : (i + 1) * stride] for i, keep in enumerate(copy) if keep}
        kept = dict(zip(kept, copies(list(kept.values())), strict=True))
        wait(self.worker.device)
        seconds = (time.perf_counter() - start) / len(contents)
        frozen = self.worker.rest()
        if answer.reply.get("nonce") != nonce:
            raise WorkerFault("garbage", why="a reply to another call")
        span = answer.reply.get("span")
        claimed = span / len(contents) if type(span) is float else None
        held = [] if lean else self._held
        self._earlier = deque(held)
        left = answer.reply.get("left")
        left_s = left if type(left) is float else 0.0
        kept_l2 = answer.reply.get("persisting")
        more: dict[str, Any] = {
            "frozen": frozen,
            "left_s": left_s,
            "persisting": kept_l2 if type(kept_l2) is int else 0,
        }
        calls = [Call(seconds, None, claimed, **more) for _ in contents]
        rows = self._shown(list(kept))
        for i, shown in zip(kept, rows, strict=True):
            self._fill(calls[i], i, answer.reply, shown, kept[i], contents[i], self.layout.slots[slots[i]])
        self._held = list(self._earlier)[len(held) :]
        return calls

    def _stage(self, contents: Sequence[Value], slots: Sequence[int]) -> None:
        if isinstance(contents, Batch) and len(contents) == len(self.layout.slots):
            size = self.layout.slot_bytes
            places = self._slots.bytes[: len(slots) * size].view(len(slots), size)
            order = arrays.index(np.asarray(slots), places)
            for column, offset in zip(contents.columns, contents[0].offsets(), strict=False):
                places[:, offset : offset + column.shape[1]][order] = column
            return
        places, sources = [], []
        for content, slot in zip(contents, slots, strict=True):
            base = self.layout.slots[slot]
            for data, offset in zip(content.data, content.offsets(), strict=False):
                places.append(self._slots.bytes[base + offset : base + offset + len(data)])
                sources.append(data)
        arrays.put(places, sources)

    def _shown(self, numbers: list[int]) -> list[dict[str, Any]]:
        """The worker's descriptions of what these calls of the last turn returned."""
        rows = self.worker.ask_about("show", numbers=numbers).reply.get("calls") if numbers else []
        if not isinstance(rows, list) or len(rows) != len(numbers) or not all(isinstance(row, dict) for row in rows):
            raise WorkerFault("garbage", why="no outputs of a turn")
        return rows

    def _fill(
        self,
        call: Call,
        i: int,
        turn: dict[str, Any],
        shown: dict[str, Any],
        snapshot: Bytes,
        content: Value,
        base: int,
    ) -> None:
        """What the i-th call of a turn gave, from the copy of its part of the outbox."""
        tensors = shown.get("tensors", [])
        sizes = [_size(row) for row in tensors] if isinstance(tensors, list) else []
        if turn.get("sent") is True and sum(map(padded, sizes)) <= len(snapshot):
            data = copies(parts(snapshot, sizes))
        else:
            outbox = self.worker.need_outbox(sum(map(padded, sizes)))
            self.worker.ask_about("deliver", number=i)
            data = copies(parts(outbox.bytes, sizes))
        reply = dict(shown)
        if "trees" in turn:
            reply["tree"] = turn["trees"][i]
        self._look_at_addresses(call, reply)
        found = [
            self._slots.bytes[base + o : base + o + len(d)]
            for d, o in zip(content.data, content.offsets(), strict=False)
        ]
        call.input_changed = not all(arrays.same(f, d) for f, d in zip(found, content.data, strict=True))
        try:
            call.output = Value.from_reply(reply, data)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise WorkerFault("garbage", why=str(error)) from None
        if self.layout.mutates:
            call.output = with_inputs(call.output, content.specs, found)


UNKNOWN = 1 << 40
"""The layout's bytes of the outputs before the reference has run."""


def padded(length: int) -> int:
    return (length + 63) // 64 * 64


def parts(memory: Bytes, sizes: Sequence[int]) -> list[Bytes]:
    """What lies one after the other at multiples of 64."""
    found, at = [], 0
    for size in sizes:
        found.append(memory[at : at + size])
        at += padded(size)
    return found


def copies(views: Sequence[Bytes]) -> list[Bytes]:
    """Copies in memory of this process's own. Raises WorkerFault `too_large` where there is not enough."""
    try:
        found = [arrays.empty_like(view) for view in views]
        arrays.put(found, views)
    except RuntimeError:  # torch's for memory that it does not get
        raise WorkerFault("too_large", bytes=sum(map(len, views))) from None
    return found


def _size(row: Any) -> int:
    """The bytes of a tensor as a worker, which may say anything, describes it."""
    size = row.get("bytes") if isinstance(row, dict) else None
    if type(size) is not int or not 0 <= size < UNKNOWN:
        raise WorkerFault("garbage", why="no tensor")
    return size


def wait(device: str) -> None:
    """Until this process's work on the device is done."""
    import torch

    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
