"""How fast candidates are against the reference, as it is and under torch.compile.

Fresh workers, one with the reference and one with each candidate, take turns on the same new inputs, each frozen while
the others work. Only the keeper's clock counts; a secret half of the timed outputs is compared. See
`docs/judge.md` for the protocol and `statistics.py` for the interval.
"""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
"""For all of a careful measurement, that of torch.compile included."""
PAIR_SECONDS = 0.3
MIN_ROUNDS, MAX_ROUNDS = 12, 60
PROBE_ROUNDS = 60_000
LOUD = 1.3
"""A probe slower than this multiple of its best says that something else runs."""
WAITED, WAITED_S = 0.1, 3e-4
"""So does a baseline whose threads waited for a core for more than this share of its call, and this long."""
COMPILE_TIMEOUT_S = 180.0
WARM_UP_CALLS = 4
LIFE_SECONDS, LIFE_CALLS = 0.8, 64
"""What one worker of each candidate goes through at least, in checked calls after the timed ones if need be, so that
answers that go wrong after a while are seen; never more than LIFE_SECONDS for that."""
BASELINE, NULL = -1, -2
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
    null: list[float] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Of each call of the candidate: the keeper's seconds and those that its worker claims."""
    quiet: list[bool] = field(default_factory=list)

    def add(self, theirs: Sequence[Call], ours: Sequence[Call], empty: Sequence[Call], probe: float) -> None:
        """One round; of a turn of calls the median counts."""
        for times, calls in ((self.baseline, theirs), (self.candidate, ours), (self.null, empty)):
            times.append(float(np.median([c.seconds for c in calls])))
        waited, spent = sum(c.waited_s for c in theirs), sum(c.seconds for c in theirs)
        self.quiet.append(probe <= LOUD and waited <= max(WAITED * spent, WAITED_S * len(theirs)))
        self.spans += [(c.seconds, c.claimed_s) for c in ours if c.claimed_s is not None]

    def kept(self) -> tuple[list[float], list[float], float]:
        """Both sides' seconds in the quiet rounds, pairs together, and the median of the empty calls among them; all
        rounds where hardly any was quiet."""
        quiet = np.asarray(self.quiet)
        if np.count_nonzero(quiet) < max(3, quiet.size // 3):
            quiet = np.ones(quiet.shape, bool)
        baseline, candidate, null = (np.asarray(x)[quiet] for x in (self.baseline, self.candidate, self.null))
        return list(baseline), list(candidate), float(np.median(null))


@dataclass
class Measured:
    """What is known of one candidate so far."""

    ended: Rejected | None = None
    """Why there is no more."""
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
        self._draws: dict[int, Reference] = {}

    def probe(self) -> float:
        """How much slower than at its best the fixed loop runs on all cores now."""
        seconds = native.probe(PROBE_ROUNDS, self.threads)
        self._best = min(self._best, seconds)
        return seconds / self._best

    def null(self, prepared: Prepared, output: Value) -> Side:
        """A worker whose calls compute nothing and return what the task returns."""
        key = id(prepared)
        if key not in self._nulls:
            side = Side(self.workers.null(), prepared.layout, 10.0)
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
            worker = self.workers.reference(prepared.folder)
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
    makers: Sequence[Callable[[], Candidate]],
    compile_over_eager: Sequence[float] = (),
    spent_s: float = 0.0,
) -> list[Measured]:
    """Times the candidates that `makers` start, side by side against one reference; those that turn out wrong have
    `ended`. `spent_s` of a careful measurement's
    seconds are gone already. Raises InvalidTask or WorkerFault if the reference fails."""
    found = [Measured() for _ in makers]
    started = time.monotonic() - spent_s
    pairs, long_lived = 0, secrets.randbelow(PAIRS)
    wanted = CAREFUL_PAIRS if settings.careful else PAIRS
    while any(m.ended is None for m in found):
        contenders = [(m, make) for m, make in zip(found, makers, strict=True) if not m.ended]
        _one_pair(clock, prepared, settings, contenders, long_lived=pairs == long_lived)
        pairs += 1
        if pairs < wanted:
            continue
        if not settings.careful or all(m.ended or _narrow(m, compile_over_eager) for m in found):
            break
        spent = time.monotonic() - started
        if spent + CAREFUL_STEP * (spent - spent_s) / pairs > CAREFUL_SECONDS * len(makers):
            for measured in found:
                measured.enough = _narrow(measured, compile_over_eager)
            break
        wanted = pairs + CAREFUL_STEP
    return found


def _narrow(measured: Measured, compile_over_eager: Sequence[float]) -> bool:
    found = [measured.eager, measured.compiled(compile_over_eager) if compile_over_eager else None]
    return all(i.width < CAREFUL_WIDTH for i in found if i is not None) and found[0] is not None


def _one_pair(
    clock: Clock,
    prepared: Prepared,
    settings: Settings,
    contenders: Sequence[tuple[Measured, Callable[[], Candidate]]],
    long_lived: bool,
) -> None:
    """One fresh reference and one fresh worker for each contender, started side by side."""
    started = time.monotonic()
    with ThreadPoolExecutor(max(2, clock.threads)) as threads:
        first = threads.submit(Baseline, clock.workers, prepared, settings)
        others = [threads.submit(_ready, prepared, *contender) for contender in contenders]
        ready = [(m, c) for (m, _), c in zip(contenders, [f.result() for f in others], strict=True) if c is not None]
        try:
            baseline = first.result()
        except BaseException:
            for _, candidate in ready:
                candidate.close()
            raise
        try:
            output = _first_calls(prepared, baseline)
            null = clock.null(prepared, output)

            def look(i: int, theirs: Sequence[Call], ours: Sequence[Call]) -> None:
                _compare_timed(prepared, ready[i][1], theirs, ours, ready[i][0])

            pairs = take_turns(clock, prepared, settings, baseline, [c for _, c in ready], null, look)
            if long_lived:
                for i, (_, candidate) in enumerate(ready):
                    pairs[i] = _after_a_while(prepared, candidate, pairs[i], started)
        finally:
            list(threads.map(lambda side: side.close(), [baseline, *[c for _, c in ready]]))
    for (measured, candidate), pair in zip(ready, pairs, strict=True):
        if isinstance(pair, Rejected):
            measured.ended = pair
        else:
            _account(measured, pair, candidate)


def _after_a_while(prepared: Prepared, candidate: Candidate, pair: Pair | Rejected, started: float) -> Pair | Rejected:
    """Goes on with checked calls until the worker has lived long enough."""
    if isinstance(pair, Rejected):
        return pair
    samples = [s for s in prepared.samples if s.state == 0]
    calls = WARM_UP_CALLS + len(pair.spans)
    ends = started + LIFE_SECONDS
    latest = time.monotonic() + LIFE_SECONDS
    try:
        while (calls < LIFE_CALLS or time.monotonic() < ends) and time.monotonic() < latest:
            candidate.check(secrets.choice(samples), prepared.states)
            calls += 1
    except Rejected as end:
        return Rejected(end.status, "time", f"{end.message}; earlier calls were right")
    return pair


def _ready(prepared: Prepared, measured: Measured, make: Callable[[], Candidate]) -> Candidate | None:
    """A fresh worker after its first calls, which are checked against the right answers."""
    candidate: Candidate | None = None
    try:
        candidate = make()
        for sample in _warm_up_samples(prepared):
            candidate.check(sample, prepared.states)
    except Rejected as end:
        measured.ended = end
        if candidate is not None:
            candidate.close()
        return None
    except BaseException:
        if candidate is not None:
            candidate.close()
        raise
    return candidate


def _first_calls(prepared: Prepared, baseline: Baseline) -> Value:
    """Those of the reference; returns an output."""
    output: Value | None = None
    for sample in _warm_up_samples(prepared):
        output = baseline.calls([sample.inputs], [True])[0].output
    assert output is not None
    return output


def _warm_up_samples(prepared: Prepared) -> list[Sample]:
    samples = [s for s in prepared.samples if s.state == 0]
    return [samples[0], *(secrets.choice(samples) for _ in range(WARM_UP_CALLS - 1))]


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
    batch = 1 if prepared.layout.staged else TURN_CALLS
    deadline = time.monotonic() + PAIR_SECONDS * (1 + len(contenders)) / 2
    buffers = [[np.empty_like(d) for d in prepared.pool[0].data] for _ in range(batch)]
    rounds = 0
    while rounds < MIN_ROUNDS or (time.monotonic() < deadline and rounds < MAX_ROUNDS):
        rounds += 1
        inputs = [_fresh(clock, prepared, settings, generator, buffer) for buffer in buffers]
        copy = [bool(generator.integers(2)) for _ in inputs]
        probe = clock.probe()
        sides = {BASELINE: baseline, NULL: null}
        sides |= {i: side for i, side in enumerate(contenders) if isinstance(found[i], Pair)}
        made: dict[int, list[Call]] = {}
        for i in generator.permutation(list(sides)):
            try:
                made[int(i)] = sides[int(i)].calls(inputs, copy)
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


def _fresh(
    clock: Clock, prepared: Prepared, settings: Settings, generator: np.random.Generator, buffer: list[values.Bytes]
) -> Value:
    """Contents that no call has had: blended from the pool, or drawn anew where a blend could be no legal input, as
    with integers (an index, an offset, a mask)."""
    if not prepared.blends:
        return clock.draw(prepared, settings)
    a, b = generator.choice(len(prepared.pool), 2, replace=False)
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
            count = int(np.count_nonzero(values.exact(spec, want_data) != values.exact(spec, got_data)))
        else:
            count = native.outside(values.floats(spec, want_data), values.floats(spec, got_data), 2 * leaf.share)
        if count > 0.005 * spec.numel:
            return f"{count} of {spec.numel} elements are not those of its inputs"
    want_numbers, numbers = values.numbers(reference.tree), values.numbers(got.tree)
    for (kind, a), (_, b) in zip(want_numbers, numbers, strict=True):
        near = a == b if kind in "bi" else math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-6) or (a != a and b != b)
        if not near:
            return f"a number is {b}, expected {a}"
    return None


def _account(measured: Measured, pair: Pair, candidate: Candidate) -> None:
    """Adds what the pair says, without the rounds in which the machine was busy."""
    measured.loud += (1 - float(np.mean(pair.quiet)) - measured.loud) / (measured.pairs + 1)
    theirs, ours, null_s = pair.kept()
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
                pair = take_turns(clock, prepared, settings, compiled, [eager], clock.null(prepared, output))[0]
                assert isinstance(pair, Pair)
            finally:
                eager.close()
        except WorkerFault as fault:
            return Compiled(
                (), f"torch.compile fails: {fault.state} {fault.detail.get('message', '')}"[:300], compile_s
            )
        finally:
            compiled.close()
        ratio = statistics.pair_log_ratio(*pair.kept())
        if ratio is not None:
            ratios.append(ratio)
    if len(ratios) < 2:
        return Compiled((), "the reference is too fast to compare with torch.compile", compile_s)
    return Compiled(tuple(ratios), "", compile_s)


def _warm_compiled(prepared: Prepared, compiled: Baseline, eager: Baseline) -> Value:
    inputs = prepared.samples[0].inputs
    for _ in range(WARM_UP_CALLS):
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
