"""Rounds of timed calls: the sides of a comparison take turns on the same new inputs, each frozen while others work."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from cuda_agent.judge import arrays, contents, expected, native, values
from cuda_agent.judge import device as devices
from cuda_agent.judge.expected import ExactLeaf
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import InvalidTask, Reference
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.sample import Sample
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import Call, Side, side_for
from cuda_agent.judge.values import Value
from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.judge.workers import TASK, Workers
from cuda_agent.verdict import Status

PAIR_SECONDS = 0.3
MIN_ROUNDS, MAX_ROUNDS = 12, 60
DEVICE_ROUNDS = 10
"""On a device, where each is a turn of many calls."""
PROBE_ROUNDS = 60_000
LOUD = 1.3
"""A probe slower than this multiple of its best says that something else runs."""
WAITED, WAITED_S = 0.1, 3e-4
"""So does a baseline whose threads waited for a core for more than this share of its call, and this long."""
BASELINE, NULL = -1, -2
COMPARED = 3
STRAY, FEW_TIES = 0.005, 8
"""Elements of a timed output that may be off: a share of all, and of integers this many, but at most a quarter."""


class Timed(Protocol):
    """What can take turns: a reference or a candidate."""

    def calls(self, inputs: Sequence[Value], copy: Sequence[bool]) -> list[Call]: ...

    def close(self) -> None: ...


@dataclass
class Pair:
    """What one fresh pair of workers gave, a value for each round: seconds per call of each side, and whether the
    machine was quiet (the probe before it, and the time that the baseline's threads waited for a core)."""

    baseline: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    null: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Of each call of the candidate: the keeper's seconds and those that its worker claims."""
    gaps: list[float] = field(default_factory=list)
    """Of each call of the baseline: the keeper's seconds less those that its worker claims."""
    quiet: list[bool] = field(default_factory=list)

    def add(self, theirs: Sequence[Call], ours: Sequence[Call], empty: Sequence[Call], probe: float) -> None:
        """One round; of a turn of calls the median counts."""
        for times, calls in ((self.baseline, theirs), (self.candidate, ours), (self.null, empty)):
            times.append(float(np.median([c.seconds for c in calls])))
        waited, spent = sum(c.waited_s for c in theirs), sum(c.seconds for c in theirs)
        self.quiet.append(probe <= LOUD and waited <= max(WAITED * spent, WAITED_S * len(theirs)))
        self.gaps += [c.seconds - c.claimed_s for c in theirs if c.claimed_s is not None]
        self.spans += [(c.seconds, c.claimed_s) for c in ours if c.claimed_s is not None]

    def kept(self) -> tuple[list[float], list[float], float]:
        """Both sides' seconds in the quiet rounds, pairs together, and the median of the empty calls among them; all
        rounds where hardly any was quiet."""
        quiet = np.asarray(self.quiet)
        if np.count_nonzero(quiet) < max(3, quiet.size // 3):
            quiet = np.ones(quiet.shape, bool)
        baseline, candidate, null = (np.asarray(x)[quiet] for x in (self.baseline, self.candidate, self.null))
        return list(baseline), list(candidate), float(np.median(null))


class Clock:
    """What all measurements of a judge share: the probe's best time, and what an empty call of a task costs."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.threads = os.cpu_count() or 1
        self._best: dict[str, float] = {}
        self._nulls: dict[int, Side] = {}
        self._draws: dict[int, Reference] = {}

    def probe(self, device: str = "cpu") -> float:
        """How much slower than at its best the fixed loop runs now, on all cores or on the device."""
        seconds = native.probe(PROBE_ROUNDS, self.threads) if device == "cpu" else devices.probe(device)
        self._best[device] = min(self._best.get(device, math.inf), seconds)
        return seconds / self._best[device]

    def quiet(self, device: str) -> bool:
        """Whether a device has nothing else to do."""
        return any(self.probe(device) <= LOUD for _ in range(3))

    def null(self, prepared: Prepared, output: Value) -> Side:
        """A worker whose calls compute nothing and return what the task returns."""
        key = id(prepared)
        if key not in self._nulls:
            side = side_for(self.workers.null(prepared.layout.device), prepared.layout, 10.0)
            specs = [s.as_json(0) for s in output.specs]
            side.worker.ask("null", tree=output.tree, tensors=specs)
            self._nulls[key] = side
        side = self._nulls[key]
        side.layout = prepared.layout
        return side

    def draw(self, prepared: Prepared, settings: Settings) -> Value:
        """New inputs from the task itself, under a new secret seed. Raises InvalidTask."""
        key = id(prepared)
        if key not in self._draws:
            worker = self.workers.reference(prepared.folder, settings.device)
            self._draws[key] = Reference(worker, settings, self.workers.inside(prepared.folder, TASK))
        found = self._draws[key].inputs(secrets.randbits(31))
        if found.specs != prepared.pool[0].specs:
            raise InvalidTask("get_inputs() gives other shapes each time; a task has static shapes")
        return found

    def forget(self, prepared: Prepared) -> None:
        """Ends what was kept for this task."""
        for kept in (self._nulls, self._draws):
            side = kept.pop(id(prepared), None)
            if side is not None:
                side.close()


def take_turns(
    clock: Clock,
    prepared: Prepared,
    settings: Settings,
    baseline: Timed,
    contenders: Sequence[Timed],
    null: Timed,
    look: Callable[[int, Sequence[Call], Sequence[Call]], None] = lambda i, theirs, ours: None,
) -> list[Pair | Rejected]:
    """Rounds of one call (or one turn of calls) of each side and of an empty one on the same new inputs, in random
    order; for each contender what it gave. `look` sees each one's calls beside the baseline's and may raise Rejected:
    then that contender is out."""
    generator = np.random.default_rng(secrets.randbits(63))
    found: list[Pair | Rejected] = [Pair() for _ in contenders]
    batch, device = prepared.layout.batch, prepared.layout.device
    together = contents.Batch(prepared.pool, batch) if device != "cpu" and prepared.blends and batch > 1 else None
    buffers = [[arrays.empty_like(d) for d in prepared.pool[0].data] for _ in range(0 if together else batch)]
    rounds, least = 0, MIN_ROUNDS if batch == 1 or device == "cpu" else DEVICE_ROUNDS
    if device != "cpu":
        if together is not None:
            together.renew(generator)
        usual: list[Value] = together or [prepared.pool[i % len(prepared.pool)] for i in range(batch)]
        _fill_the_pools([baseline, null, *contenders], usual)
    deadline = time.monotonic() + PAIR_SECONDS * (1 + len(contenders)) / 2
    while rounds < least or (time.monotonic() < deadline and rounds < MAX_ROUNDS):
        rounds += 1
        if together is not None:
            together.renew(generator)
        inputs = together or [_fresh(clock, prepared, settings, generator, buffer) for buffer in buffers]
        copy = _to_compare(generator, batch, device)
        probe = clock.probe(device)
        sides = {BASELINE: baseline, NULL: null}
        sides |= {i: side for i, side in enumerate(contenders) if isinstance(found[i], Pair)}
        made: dict[int, list[Call]] = {}
        for i in generator.permutation(list(sides)):
            try:
                made[int(i)] = sides[int(i)].calls(inputs, copy)
                if i >= 0 and device != "cpu":
                    _refuse_what_goes_on(clock, device, contenders[i])
            except Rejected as end:
                found[int(i)] = end
        for i, calls in made.items():
            pair = found[i] if i >= 0 else None
            if isinstance(pair, Pair):
                pair.add(made[BASELINE], calls, made[NULL], probe)
                try:
                    look(i, made[BASELINE], calls)
                except Rejected as end:
                    found[i] = end
        if not any(isinstance(pair, Pair) for pair in found):
            break
    return found


def _fill_the_pools(sides: Sequence[Timed], inputs: Sequence[Value]) -> None:
    """Two turns of each side that do not count: after them the allocators have memory for all outputs of a turn."""
    for side in sides:
        for _ in range(2):
            with contextlib.suppress(Rejected):  # the counted turns end the same way, where it is looked at
                side.calls(inputs, [False] * len(inputs))


def _refuse_what_goes_on(clock: Clock, device: str, contender: Timed) -> None:
    """Raises Rejected if the device is still at work after a contender's turn, and no longer once that has ended;
    WorkerFault if it is somebody else's work."""
    if clock.quiet(device):
        return
    contender.close()
    raise goes_on(clock, device)


def goes_on(clock: Clock, device: str) -> Rejected:
    """The fault of the candidate whose workers have just ended, if the device is quiet now. Raises WorkerFault if it
    is somebody else's work."""
    if clock.quiet(device):
        return Rejected(Status.FORBIDDEN, "time", "it keeps the device at work after its outputs are complete")
    raise WorkerFault("failed", why=f"something else keeps the device {device} at work; times would say nothing")


def _to_compare(generator: np.random.Generator, batch: int, device: str) -> list[bool]:
    """Which outputs of a round are compared: a secret half, of a device's longer turns a secret few."""
    if device == "cpu" or batch == 1:
        return [bool(generator.integers(2)) for _ in range(batch)]
    chosen = set(generator.choice(batch, min(COMPARED, batch), replace=False).tolist())
    return [i in chosen for i in range(batch)]


def _fresh(
    clock: Clock, prepared: Prepared, settings: Settings, generator: np.random.Generator, buffer: list[values.Bytes]
) -> Value:
    """Contents that no call has had: blended from the pool, or drawn anew where a blend could be no legal input, as
    with integers (an index, an offset, a mask)."""
    if not prepared.blends:
        return clock.draw(prepared, settings)
    a, b = generator.choice(len(prepared.pool), 2, replace=False)
    return contents.blended(prepared.pool[int(a)], prepared.pool[int(b)], int(generator.integers(1 << 62)), buffer)


def timed_mismatch(sample: Sample, reference: Value, got: Value) -> str | None:
    """Compares with the reference's own output on the same inputs: bounds as wide, relative to the output's size, as
    nearly all of the checked sample's are; a stray element in two hundred is not looked at, nor are a few integers,
    which ties may swap."""
    fault = sample.expected.structure_fault(got)
    if fault is not None:
        return fault
    rows = zip(sample.expected.leaves, expected.ordered(reference), expected.ordered(got), strict=True)
    for leaf, (spec, want_data), (own, got_data) in rows:
        stray = STRAY * spec.numel
        if isinstance(leaf, ExactLeaf):
            count = int((values.exact(spec, want_data) != values.exact(own, got_data)).sum())
            stray = max(stray, min(FEW_TIES, spec.numel / 4))
        else:
            count = arrays.outside(values.floats(spec, want_data), values.floats(own, got_data), 2 * leaf.share)
        if count > stray:
            return f"{count} of {spec.numel} elements are not those of its inputs"
    want_numbers, numbers = values.numbers(reference.tree), values.numbers(got.tree)
    for (kind, a), (_, b) in zip(want_numbers, numbers, strict=True):
        near = a == b if kind in "bi" else math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-6) or (a != a and b != b)
        if not near:
            return f"a number is {b}, expected {a}"
    return None
