"""One worker with its share of memory: putting inputs and parameters in, calling it, taking outputs out.

Checked and timed calls go through `calls` alike. Two ways, chosen by size for both sides of a comparison: `staged` puts
the inputs of one call into frozen memory past the caches; else small inputs are copied within the clock, many calls
to one turn, so that nothing of a later call can be read ahead.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuda_agent.judge import arrays, native
from cuda_agent.judge.values import Bytes, Spec, Value
from cuda_agent.judge.worker.harness_limits import HELD_OUTPUTS
from cuda_agent.judge.worker.pool import Answer, SharedMemory, Worker, WorkerFault

SMALL_BYTES = 256 << 10
TURN_CALLS = 8
FEW_CALLS = 4
ROOM_CALLS, MAX_ROOM = 24, 256 << 20
"""A worker gets as much touched memory as this many inputs or outputs take, at most so many bytes."""


@dataclass(frozen=True)
class Layout:
    """How a task's inputs, parameters and constructor arguments lie in shared memory; the same for every worker."""

    inputs: Value
    """Its tree and specs count, not its data."""
    state: Value
    rows: tuple[dict[str, Any], ...]
    """Names and kinds of the state's tensors."""
    init: Value
    outputs_bytes: int = 0
    changed: tuple[str, ...] = ()
    """Buffers that a call changes."""
    mutates: bool = False
    """A call changes its inputs."""
    aliases: bool = False
    reuses: bool = False
    device: str = "cpu"
    turn: int = FEW_CALLS
    """Calls to a turn on a device."""
    lean: bool = False
    """Tensors are so large that nothing is kept that can be made again."""

    @property
    def slot_bytes(self) -> int:
        return max(64, self.inputs.offsets()[-1])

    @property
    def room(self) -> int:
        """Bytes of memory that a worker touches before its first call. Where in its heap a call's memory lies changes
        over the first dozen calls, and the one that takes a place first would pay for its page faults."""
        parameters = sum(spec.bytes for spec in self.state.specs)
        return min(ROOM_CALLS * max(self.slot_bytes, self.outputs_bytes) + parameters, MAX_ROOM)

    @property
    def staged(self) -> bool:
        return self.slot_bytes + self.outputs_bytes > SMALL_BYTES

    @property
    def slots(self) -> list[int]:
        """Offsets of the input slots."""
        if self.device != "cpu":
            return [i * self.slot_bytes for i in range(self.turn)]
        count = TURN_CALLS if self.slot_bytes <= SMALL_BYTES else (3 if self.slot_bytes <= 256 << 20 else 1)
        return [i * self.slot_bytes for i in range(count)]

    @property
    def batch(self) -> int:
        """Calls that one round of a measurement makes of each side."""
        if self.device != "cpu":
            return 1 if self.changed else self.turn
        return 1 if self.staged else TURN_CALLS

    @property
    def state_base(self) -> int:
        return len(self.slots) * self.slot_bytes

    @property
    def init_base(self) -> int:
        return self.state_base + self.state.offsets()[-1]

    @property
    def total(self) -> int:
        return self.init_base + self.init.offsets()[-1]


@dataclass
class Call:
    """One call: measured seconds, the output (None if it was not copied), what the worker claims of its own time."""

    seconds: float
    output: Value | None
    claimed_s: float | None
    waited_s: float = 0.0
    input_changed: bool = False
    aliases_input: bool = False
    reuses_output: bool = False
    frozen: bool = True
    persisting: int = 0
    """Bytes of cache that the worker claims to keep for itself."""
    left_s: float = 0.0
    """What the worker claims that it had to wait, after its stream was done, for the rest of the device."""


@dataclass
class Side:
    worker: Worker
    layout: Layout
    call_timeout_s: float
    first_timeout_s: float | None = None
    """For the first call, where it may take longer than the others."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The task's parameter names → the worker's own."""
    _slots: Any = field(init=False)
    _vault: SharedMemory | None = field(init=False, default=None)
    _earlier: deque[list[tuple[int, int]]] = field(init=False)
    _generator: np.random.Generator = field(init=False)
    _restore: Value | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(secrets.randbits(63))
        self._earlier = deque(maxlen=HELD_OUTPUTS)
        self._slots = self._memory(self.layout.total)
        self.worker.attach_slots(self._slots)
        self._sign()

    def _memory(self, size: int) -> Any:
        return SharedMemory(size)

    def _written(self) -> None:
        """After this process wrote into the shared memory."""

    def _sign(self) -> None:
        inputs = self.layout.inputs
        specs = [s.as_json(o) for s, o in zip(inputs.specs, inputs.offsets(), strict=False)]
        self.worker.ask("signature", tree=inputs.tree, tensors=specs, slots=self.layout.slots, room=self.layout.room)

    def close(self) -> None:
        self.worker.kill()
        self._slots.close()
        if self._vault is not None:
            self._vault.close()

    def release(self) -> None:
        """Lets the worker and this process give back what memory they can; earlier outputs are forgotten."""

    # -- parameters -------------------------------------------------------------------------------------------------

    def put_state(self, state: Value, **arguments: Any) -> Answer:
        """Copies `state` into the worker's parameters and buffers, in place."""
        base = self.layout.state_base
        order: dict[str, Any] = {}
        for spec, data, row, offset in zip(state.specs, state.data, self.layout.rows, state.offsets(), strict=False):
            if row["tied"] is not None:
                continue
            self._slots.bytes[base + offset : base + offset + spec.bytes] = data
            order[self.names.get(row["name"], row["name"])] = spec.as_json(base + offset)
        if self.layout.changed:
            self._restore = state
        self._written()
        return self.worker.ask("state", timeout_s=120.0, state=order, **arguments)

    def _restore_buffers(self) -> None:
        """Buffers that calls change are what they were, before each call."""
        if self._restore is None:
            return
        state, base, order = self._restore, self.layout.state_base, {}
        for spec, data, row, offset in zip(state.specs, state.data, self.layout.rows, state.offsets(), strict=False):
            if row["name"] in self.layout.changed:
                self._slots.bytes[base + offset : base + offset + spec.bytes] = data
                order[self.names.get(row["name"], row["name"])] = spec.as_json(base + offset)
        self._written()
        self.worker.ask("state", state=order, prepare=False)

    def put_init(self) -> dict[str, Any]:
        """Copies the constructor's arguments into shared memory; returns the request that names them."""
        init = self.layout.init
        base = self.layout.init_base
        for spec, data, offset in zip(init.specs, init.data, init.offsets(), strict=False):
            self._slots.bytes[base + offset : base + offset + spec.bytes] = data
        specs = [s.as_json(o) for s, o in zip(init.specs, init.offsets(), strict=False)]
        self._written()
        return {"tree": init.tree, "tensors": specs, "base": base}

    # -- calls ------------------------------------------------------------------------------------------------------

    def calls(self, contents: Sequence[Value], copy: Sequence[bool]) -> list[Call]:
        """A call for each of `contents`; outputs are copied where `copy` says so. Raises WorkerFault."""
        if self.layout.staged:
            return [self._staged(c, keep) for c, keep in zip(contents, copy, strict=True)]
        made: list[Call] = []
        step = 1 if self.layout.changed else TURN_CALLS
        for start in range(0, len(contents), step):
            made += self._copied(contents[start : start + step], copy[start : start + step])
        return made

    def call(self, content: Value) -> Call:
        """One checked call."""
        return self.calls([content], [True])[0]

    def _timeout_s(self) -> float:
        limit, self.first_timeout_s = self.first_timeout_s or self.call_timeout_s, None
        return limit

    def _staged(self, content: Value, copy: bool) -> Call:
        self._restore_buffers()
        slot = int(self._generator.integers(len(self.layout.slots)))
        base = self.layout.slots[slot]
        for data, offset in zip(content.data, content.offsets(), strict=False):
            native.copy_cold(self._slots.address + base + offset, data.ctypes.data, data.nbytes)
        nonce = secrets.token_hex(8)
        order = {"request": {"op": "run", "slot": slot, "nonce": nonce}, "copy": copy}
        answer = self.worker.turn([order], staged=True, timeout_s=self._timeout_s())[0]
        return self._made(answer, nonce, content, base, copy)

    def _copied(self, contents: Sequence[Value], copy: Sequence[bool]) -> list[Call]:
        size = self.layout.slot_bytes
        if self._vault is None:
            self._vault = SharedMemory(TURN_CALLS * size)
            self.worker.attach_vault(self._vault)
        self._restore_buffers()
        slots = self._generator.permutation(len(self.layout.slots))
        orders, nonces = [], []
        for i, content in enumerate(contents):
            for data, offset in zip(content.data, content.offsets(), strict=False):
                self._vault.bytes[i * size + offset : i * size + offset + data.nbytes] = data
            nonces.append(secrets.token_hex(8))
            request = {"op": "run", "slot": int(slots[i]), "nonce": nonces[-1]}
            to = self.layout.slots[slots[i]]
            orders.append({"request": request, "copy": True, "from": i * size, "to": to, "bytes": size})
        answers = self.worker.turn(orders, staged=False, timeout_s=self._timeout_s())
        return [
            self._made(answer, nonce, content, order["to"], keep)
            for answer, nonce, content, order, keep in zip(answers, nonces, contents, orders, copy, strict=True)
        ]

    def _made(self, answer: Answer, nonce: str, content: Value, base: int, copy: bool) -> Call:
        if answer.reply.get("nonce") != nonce:
            raise WorkerFault("garbage", why="a reply to another call")
        claimed = answer.reply.get("span")
        own = claimed if type(claimed) is float else None
        call = Call(answer.seconds, None, own, answer.waited_s, frozen=answer.frozen)
        self._look_at_addresses(call, answer.reply)
        found = [
            self._slots.bytes[base + o : base + o + d.nbytes]
            for d, o in zip(content.data, content.offsets(), strict=False)
        ]
        if copy or not self.layout.mutates:
            call.input_changed = not all(native.same(f, d) for f, d in zip(found, content.data, strict=True))
        if copy:
            try:
                call.output = Value.from_reply(answer.reply, answer.data)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise WorkerFault("garbage", why=str(error)) from None
            if self.layout.mutates:
                call.output = with_inputs(call.output, content.specs, found)
        return call

    def _look_at_addresses(self, call: Call, reply: Mapping[str, Any]) -> None:
        """Whether outputs lie in the inputs' memory or in that of an output that is still held."""
        rows = reply.get("tensors", [])[: len(reply.get("tensors", [])) - len(self.layout.changed)]
        ranges = [(r["address"], r["address"] + r["bytes"]) for r in rows if r["bytes"]]
        low, high = self.worker.slots_range
        call.aliases_input = any(a < high and b > low for a, b in ranges)
        outside = [(a, b) for a, b in ranges if not (a < high and b > low)]
        call.reuses_output = any(a < d and b > c for a, b in outside for old in self._earlier for c, d in old)
        self._earlier.append(outside)


def with_inputs(output: Value, specs: Sequence[Spec], found: Sequence[Bytes]) -> Value:
    """The output and, as further tensors, the inputs as the call left them."""
    return Value(output.tree, (*output.specs, *specs), (*output.data, *map(arrays.copied, found)))


def side_for(worker: Worker, layout: Layout, call_timeout_s: float, first_timeout_s: float | None = None) -> Side:
    """The side that fits the layout's device."""
    if layout.device == "cpu":
        return Side(worker, layout, call_timeout_s, first_timeout_s)
    from cuda_agent.judge.device_side import DeviceSide, DeviceWorker

    assert isinstance(worker, DeviceWorker)
    return DeviceSide(worker, layout, call_timeout_s, first_timeout_s)
