"""How fast a candidate is against the reference, as it is and under torch.compile.

Fresh pairs of workers, one with the reference and one with the candidate, take turns on the same new inputs, each
frozen while the other works. Only the keeper's clock counts; a secret half of the timed outputs is compared. See
`docs/judge.md` for the protocol and `statistics.py` for the interval.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from cuda_agent.judge import contents, expected, native, statistics, values
from cuda_agent.judge.candidate import Candidate
from cuda_agent.judge.expected import ExactLeaf
from cuda_agent.judge.prepared import InvalidTask, Prepared, Reference, Sample
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import TURN_CALLS, Call, Side
from cuda_agent.judge.values import Value
from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.judge.workers import TASK, Workers
from cuda_agent.verdict import Interval, Status

PAIRS = 4
COMPILE_PAIRS = 4
CAREFUL_PAIRS = 8
CAREFUL_STEP = 4
CAREFUL_WIDTH = 0.05
CAREFUL_SECONDS = 50.0
PAIR_SECONDS = 0.35
MIN_ROUNDS, MAX_ROUNDS = 12, 60
PROBE_ROUNDS = 60_000
LOUD = 1.3
"""A probe slower than this multiple of its best says that something else runs."""
WAITED = 0.1
"""So does a baseline whose threads waited for a core for more than this share of its call."""
COMPILE_TIMEOUT_S = 180.0
FLOOR_BYTES = 1 << 20
TOO_FAST_S = 20e-6


class Timed(Protocol):
    """What can take turns: a reference or a candidate."""

    def calls(self, inputs: Sequence[Value], copy: Sequence[bool]) -> list[Call]: ...


@dataclass
class Pair:
    """What one fresh pair of workers gave, a value for each round: seconds per call of each side, and whether the
    machine was quiet (the probe before it, and the time that the baseline's threads waited for a core)."""

    baseline: list[float] = field(default_factory=list)
    candidate: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Of each call of the candidate: the keeper's seconds and those that its worker claims."""
    quiet: list[bool] = field(default_factory=list)

    def kept(self) -> tuple[list[float], list[float]]:
        """Both sides' seconds in the quiet rounds, pairs together; the quieter half where hardly any was quiet."""
        quiet = np.asarray(self.quiet)
        if np.count_nonzero(quiet) < max(3, quiet.size // 3):
            quiet = np.ones(quiet.shape, bool)
        return list(np.asarray(self.baseline)[quiet]), list(np.asarray(self.candidate)[quiet])


@dataclass
class Measured:
    log_ratios: list[float] = field(default_factory=list)
    """Logarithms of eager over candidate, one for each pair."""
    candidate_s: list[float] = field(default_factory=list)
    eager_s: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    null_s: float = 0.0
    prepare_s: float | None = None
    loud: float = 0.0
    """Share of rounds that were dropped because the machine was busy."""
    pairs: int = 0
    enough: bool = True
    compared: int = 0
    guards: list[dict[str, bool]] = field(default_factory=list)

    @property
    def eager(self) -> Interval | None:
        return statistics.interval(self.log_ratios)

    def compiled(self, compile_over_eager: Sequence[float]) -> Interval | None:
        return statistics.interval(self.log_ratios, compile_over_eager) if compile_over_eager else None


class Clock:
    """What all measurements of a judge share: the probe's best time, and what an empty call of a task costs."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.threads = os.cpu_count() or 1
        self._best = math.inf
        self._nulls: dict[int, Side] = {}

    def probe(self) -> float:
        """How much slower than at its best the fixed loop runs on all cores now."""
        seconds = native.probe(PROBE_ROUNDS, self.threads)
        self._best = min(self._best, seconds)
        return seconds / self._best

    def null(self, prepared: Prepared, output: Value) -> float:
        """Seconds of a call that computes nothing and returns what the task returns: the median of a dozen."""
        key = id(prepared)
        if key not in self._nulls:
            side = Side(self.workers.null(), prepared.layout, 10.0)
            specs = [s.as_json(0) for s in output.specs]
            side.worker.ask("null", tree=output.tree, tensors=specs)
            self._nulls[key] = side
        side = self._nulls[key]
        side.layout = prepared.layout
        count = 2 * TURN_CALLS
        inputs = [prepared.pool[i % len(prepared.pool)] for i in range(count)]
        seconds = [call.seconds for call in side.calls(inputs, [False] * count)]
        return float(np.median(seconds[count // 4 :]))

    def forget(self, prepared: Prepared) -> None:
        side = self._nulls.pop(id(prepared), None)
        if side is not None:
            side.close()


class Baseline:
    """A fresh reference worker that is ready to be timed, eager or compiled."""

    def __init__(self, workers: Workers, prepared: Prepared, settings: Settings, compiled: Path | None = None) -> None:
        worker = workers.reference(prepared.folder, compiled)
        reference: Reference | None = None
        try:
            reference = Reference(worker, settings, workers.inside(prepared.folder, TASK))
            reference.build(prepared.seed)
            side = reference.attach(prepared.layout)
            if prepared.layout.changed:
                reference.ask("watch", names=list(prepared.layout.changed))
            if prepared.layout.rows:
                reference.put_state(prepared.states[0])
            if compiled is not None:
                reference.use("compile")
                side.call_timeout_s = COMPILE_TIMEOUT_S
        except BaseException:
            reference.close() if reference is not None else worker.kill()
            raise
        self.reference, self.side = reference, side

    def calls(self, inputs: Sequence[Value], copy: Sequence[bool]) -> list[Call]:
        return self.side.calls(inputs, copy)

    def close(self) -> None:
        self.reference.close()


def measure(
    clock: Clock,
    prepared: Prepared,
    settings: Settings,
    make_candidate: Callable[[], Candidate],
    compile_over_eager: Sequence[float] = (),
) -> Measured:
    """Raises Rejected if a timed call of the candidate turns out wrong, and InvalidTask if the reference fails."""
    measured = Measured()
    started = time.monotonic()
    wanted = CAREFUL_PAIRS if settings.careful else PAIRS
    while True:
        _one_pair(clock, prepared, settings, make_candidate, measured)
        if measured.pairs < wanted:
            continue
        if not settings.careful:
            break
        if _narrow(measured, compile_over_eager):
            break
        spent = time.monotonic() - started
        if spent * (1 + CAREFUL_STEP / measured.pairs) > CAREFUL_SECONDS:
            measured.enough = False
            break
        wanted = measured.pairs + CAREFUL_STEP
    return measured


def _narrow(measured: Measured, compile_over_eager: Sequence[float]) -> bool:
    found = [measured.eager, measured.compiled(compile_over_eager) if compile_over_eager else None]
    return all(i.width < CAREFUL_WIDTH for i in found if i is not None) and found[0] is not None


def _one_pair(
    clock: Clock,
    prepared: Prepared,
    settings: Settings,
    make_candidate: Callable[[], Candidate],
    measured: Measured,
) -> None:
    baseline = Baseline(clock.workers, prepared, settings)
    try:
        candidate = make_candidate()
    except BaseException:
        baseline.close()
        raise
    try:
        warm = _warm_up(prepared, baseline, candidate)
        null_s = clock.null(prepared, warm)
        pair = take_turns(clock, prepared, baseline, candidate, null_s, measured)
    finally:
        candidate.close()
        baseline.close()
    _account(measured, pair, null_s, candidate)


def _warm_up(prepared: Prepared, baseline: Baseline, candidate: Candidate) -> Value:
    """First calls of both sides, the candidate's checked against the right answers; returns an output."""
    generator = np.random.default_rng(secrets.randbits(63))
    samples = [s for s in prepared.samples if s.state == 0]
    picked: list[Sample] = [samples[0], *(samples[int(i)] for i in generator.integers(len(samples), size=3))]
    output: Value | None = None
    for sample in picked:
        baseline.calls([sample.inputs], [False])
        output = candidate.check(sample, prepared.states).output if prepared.states else None
    assert output is not None
    return output


def take_turns(
    clock: Clock, prepared: Prepared, baseline: Timed, candidate: Timed, null_s: float, measured: Measured | None = None
) -> Pair:
    """Rounds of one call (or one turn of calls) of each side on the same new inputs, in random order."""
    generator = np.random.default_rng(secrets.randbits(63))
    pair = Pair()
    batch = 1 if prepared.layout.staged else TURN_CALLS
    deadline = time.monotonic() + PAIR_SECONDS
    buffers = [[np.empty_like(d) for d in prepared.pool[0].data] for _ in range(batch)]
    rounds = 0
    while rounds < MIN_ROUNDS or (time.monotonic() < deadline and rounds < MAX_ROUNDS):
        rounds += 1
        inputs = [_fresh(prepared, generator, buffer) for buffer in buffers]
        copy = [bool(generator.integers(2)) for _ in inputs]
        probe = clock.probe()
        if generator.integers(2):
            ours = candidate.calls(inputs, copy)
            theirs = baseline.calls(inputs, copy)
        else:
            theirs = baseline.calls(inputs, copy)
            ours = candidate.calls(inputs, copy)
        pair.baseline.append(float(np.median([c.seconds for c in theirs])))
        pair.candidate.append(float(np.median([c.seconds for c in ours])))
        waited = sum(c.waited_s for c in theirs) > WAITED * sum(c.seconds for c in theirs)
        pair.quiet.append(probe <= LOUD and not waited)
        pair.spans += [(c.seconds, c.claimed_s) for c in ours if c.claimed_s is not None]
        if measured is not None and isinstance(candidate, Candidate):
            _compare_timed(prepared, candidate, theirs, ours, measured)
    return pair


def _fresh(prepared: Prepared, generator: np.random.Generator, buffer: list[values.Bytes]) -> Value:
    a, b = generator.choice(len(prepared.pool), 2, replace=False)
    if not prepared.blends:
        return prepared.pool[int(a)]
    return contents.blended(prepared.pool[int(a)], prepared.pool[int(b)], int(generator.integers(1 << 62)), buffer)


def _compare_timed(
    prepared: Prepared, candidate: Candidate, theirs: Sequence[Call], ours: Sequence[Call], measured: Measured
) -> None:
    for reference, call in zip(theirs, ours, strict=True):
        candidate.look_at(call)
        if call.output is None or reference.output is None:
            continue
        measured.compared += 1
        fault = timed_mismatch(prepared.samples[0], reference.output, call.output)
        if fault is not None:
            raise Rejected(Status.WRONG, "time", f"an output of a timed call is wrong: {fault}")


def timed_mismatch(sample: Sample, reference: Value, got: Value) -> str | None:
    """Compares with the reference's own output on the same inputs: bounds as wide, relative to the output's size, as
    nearly all of the checked sample's are; a stray element in two hundred is not looked at."""
    fault = sample.expected.structure_fault(got)
    if fault is not None:
        return fault
    rows = zip(sample.expected.leaves, expected.ordered(reference), expected.ordered(got), strict=True)
    for leaf, (spec, want_data), (_, got_data) in rows:
        if isinstance(leaf, ExactLeaf):
            wrong = values.exact(spec, want_data) != values.exact(spec, got_data)
        else:
            want, have = values.floats(spec, want_data), values.floats(spec, got_data)
            finite = np.isfinite(leaf.want) & np.isfinite(leaf.bound)
            size = np.abs(leaf.want[finite]) + expected.rms(leaf.want[finite])
            share = leaf.bound[finite] / np.where(size > 0, size, 1.0)
            tolerance = 2 * float(np.quantile(share, 0.999)) if share.size else 0.0
            with np.errstate(invalid="ignore"):
                usable = np.isfinite(want)
                scale = np.abs(want) + expected.rms(want[usable])
                wrong = np.where(
                    usable, ~(np.abs(have - want) <= tolerance * scale + 1e-30), _class_differs(want, have)
                )
        count = int(np.count_nonzero(wrong))
        if count > 0.005 * wrong.size:
            return f"{count} of {wrong.size} elements are not those of its inputs"
    want_numbers, numbers = values.numbers(reference.tree), values.numbers(got.tree)
    for (kind, a), (_, b) in zip(want_numbers, numbers, strict=True):
        near = a == b if kind in "bi" else math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-6) or (a != a and b != b)
        if not near:
            return f"a number is {b}, expected {a}"
    return None


def _class_differs(want: values.Floats, got: values.Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.where(np.isnan(want), ~np.isnan(got), got != want)


def _account(measured: Measured, pair: Pair, null_s: float, candidate: Candidate) -> None:
    """Drops the rounds in which the machine was busy, pairs together, and adds what the pair says."""
    measured.loud += (1 - float(np.mean(pair.quiet)) - measured.loud) / (measured.pairs + 1)
    theirs, ours = pair.kept()
    measured.pairs += 1
    measured.null_s = null_s
    measured.prepare_s = candidate.prepare_s
    measured.guards.append(candidate.guards)
    measured.candidate_s.append(max(0.0, float(np.median(ours)) - null_s))
    measured.eager_s.append(max(0.0, float(np.median(theirs)) - null_s))
    measured.spans += pair.spans
    ratio = statistics.pair_log_ratio(theirs, ours, null_s)
    if ratio is not None:
        measured.log_ratios.append(ratio)


@dataclass(frozen=True)
class Compiled:
    """torch.compile against eager: logarithms of compile over eager for each fresh pair; why there are none."""

    log_ratios: tuple[float, ...]
    why: str = ""
    compile_s: float = 0.0


def measure_compiled(clock: Clock, prepared: Prepared, settings: Settings, pairs: int = COMPILE_PAIRS) -> Compiled:
    """Fresh pairs of an eager and a compiled reference; torch.compile's builds are shared between the pairs."""
    folder = clock.workers.folder("compiled-", for_sandbox=True)
    ratios: list[float] = []
    started = time.monotonic()
    compile_s = 0.0
    for _ in range(pairs):
        try:
            compiled = Baseline(clock.workers, prepared, settings, folder)
        except (InvalidTask, WorkerFault) as error:
            return Compiled((), f"torch.compile: {error}", time.monotonic() - started)
        try:
            eager = Baseline(clock.workers, prepared, settings)
            try:
                output = _warm_compiled(prepared, compiled, eager)
                compile_s = compile_s or time.monotonic() - started
                null_s = clock.null(prepared, output)
                pair = take_turns(clock, prepared, compiled, eager, null_s)
            finally:
                eager.close()
        except WorkerFault as fault:
            return Compiled(
                (), f"torch.compile fails: {fault.state} {fault.detail.get('message', '')}"[:300], compile_s
            )
        finally:
            compiled.close()
        ratio = statistics.pair_log_ratio(*pair.kept(), null_s)
        if ratio is not None:
            ratios.append(ratio)
    if len(ratios) < 2:
        return Compiled((), "the reference is too fast to compare with torch.compile", compile_s)
    return Compiled(tuple(ratios), "", compile_s)


def _warm_compiled(prepared: Prepared, compiled: Baseline, eager: Baseline) -> Value:
    inputs = prepared.samples[0].inputs
    for _ in range(4):
        compiled.calls([inputs], [False])
        output = eager.calls([inputs], [True])[0].output
    assert output is not None
    return output


def floor_s(prepared: Prepared, threads: int) -> float | None:
    """Seconds in which the inputs that matter and the outputs can be read at best; None for less than 1 MiB."""
    total = prepared.necessary_bytes
    return (
        native.read_seconds(min(total, 1 << 28), threads) * max(1.0, total / (1 << 28)) if total > FLOOR_BYTES else None
    )
