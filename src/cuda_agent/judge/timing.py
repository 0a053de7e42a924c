"""How fast candidates are against the reference, as it is and under torch.compile.

Fresh workers, one with the reference and one with each candidate, take turns on the same new inputs, each frozen while
the others work. Only the keeper's clock counts; a secret half of the timed outputs is compared. See
`docs/judge.md` for the protocol and `statistics.py` for the interval.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cuda_agent.judge import device as devices
from cuda_agent.judge import native, statistics
from cuda_agent.judge.candidate import Candidate
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import InvalidTask, Reference
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.rounds import Clock, Pair, take_turns, timed_mismatch
from cuda_agent.judge.sample import Sample
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import Call
from cuda_agent.judge.values import Value
from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.judge.workers import TASK, Workers
from cuda_agent.verdict import Interval, Status

PAIRS = 4
CAREFUL_PAIRS = 8
CAREFUL_STEP = 4
CAREFUL_WIDTH = 0.05
COMPILED_WIDTH = CAREFUL_WIDTH / 2**0.5
"""Of torch.compile over eager, so that its product with an interval as wide keeps CAREFUL_WIDTH."""
CAREFUL_SECONDS = 50.0
"""For all of a careful measurement, that of torch.compile included."""
COMPILE_TIMEOUT_S = 180.0
WARM_UP_CALLS = 4
LIFE_SECONDS, LIFE_CALLS = 0.8, 64
"""What one worker of each candidate goes through at least, in checked calls after the timed ones if need be, so that
answers that go wrong after a while are seen; never more than LIFE_SECONDS for that."""
FLOOR_BYTES = 1 << 20
TOO_FAST_S = 100e-6
"""Less than what a call through the worker's own code costs, which that worker could cut down."""
LOADED = 0.25
"""Of the rounds dropped, more than this share is a loaded machine."""


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
    gaps: list[float] = field(default_factory=list)
    null_s: float = 0.0
    prepare_s: float | None = None
    loud: float = 0.0
    """Share of rounds that were dropped because the machine was busy."""
    pairs: int = 0
    too_wide: tuple[str, ...] = ()
    """The baselines whose careful interval did not get narrow."""
    compared: int = 0
    guards: list[dict[str, bool]] = field(default_factory=list)

    @property
    def loaded(self) -> bool:
        """Whether something else ran so often that times say little."""
        return self.loud > LOADED

    @property
    def eager(self) -> Interval | None:
        return statistics.interval(self.log_ratios)

    def compiled(self, compile_over_eager: Sequence[float]) -> Interval | None:
        return statistics.interval(self.log_ratios, compile_over_eager) if compile_over_eager else None


class Baseline:
    """A fresh reference worker that is ready to be timed, eager or compiled."""

    def __init__(self, workers: Workers, prepared: Prepared, settings: Settings, compiled: Path | None = None) -> None:
        if prepared.layout.lean:
            devices.release(settings.device)
        worker = workers.reference(prepared.folder, settings.device, compiled)
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
        if not settings.careful:
            break
        spent = time.monotonic() - started
        in_time = spent + CAREFUL_STEP * (spent - spent_s) / pairs <= CAREFUL_SECONDS * len(makers)
        if not in_time or not any(m.ended is None and more_pairs_help(m, compile_over_eager) for m in found):
            for measured in found:
                measured.too_wide = too_wide(measured, compile_over_eager)
            break
        wanted = pairs + CAREFUL_STEP
    return found


def too_wide(measured: Measured, compile_over_eager: Sequence[float]) -> tuple[str, ...]:
    """The baselines over which the interval is not yet as narrow as a careful one should be."""
    found = {"eager": measured.eager, "torch.compile": measured.compiled(compile_over_eager)}
    return tuple(name for name, i in found.items() if i is not None and i.width >= CAREFUL_WIDTH)


def more_pairs_help(measured: Measured, compile_over_eager: Sequence[float]) -> bool:
    """Whether more pairs of this candidate can narrow what is too wide: they narrow nothing of torch.compile's own."""
    if measured.eager is None or "eager" in too_wide(measured, ()):
        return True
    baseline = statistics.interval(compile_over_eager)
    return baseline is not None and baseline.width < CAREFUL_WIDTH and bool(too_wide(measured, compile_over_eager))


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
            candidate.warm_up(secrets.choice(samples), prepared.states)
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
            candidate.warm_up(sample, prepared.states)
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
    measured.gaps += pair.gaps
    ratio = statistics.pair_log_ratio(theirs, ours, null_s)
    if ratio is not None:
        measured.log_ratios.append(ratio)


@dataclass(frozen=True)
class Compiled:
    """torch.compile against eager: logarithms of compile over eager for each fresh pair; why there are none."""

    log_ratios: tuple[float, ...]
    why: str = ""
    compile_s: float = 0.0


def measure_compiled(clock: Clock, prepared: Prepared, settings: Settings) -> Compiled:
    """Fresh pairs of an eager and a compiled reference; torch.compile's builds are shared between the pairs.

    A careful one goes on until its interval is COMPILED_WIDTH narrow or half of the careful seconds have passed.
    """
    folder = clock.workers.folder("compiled-", for_sandbox=True)
    ratios: list[float] = []
    started = time.monotonic()
    compile_s = 0.0
    pairs, wanted = 0, CAREFUL_PAIRS if settings.careful else PAIRS
    while pairs < wanted:
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
        pairs += 1
        if pairs == wanted and settings.careful and ratios:
            found = statistics.interval(ratios)
            spent = time.monotonic() - started
            in_time = spent + CAREFUL_STEP * (spent - compile_s) / pairs <= CAREFUL_SECONDS / 2
            if in_time and (found is None or found.width >= COMPILED_WIDTH):
                wanted += CAREFUL_STEP
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
    if prepared.layout.device != "cpu":
        return total / devices.bandwidth(prepared.layout.device) if total > FLOOR_BYTES else None
    return (
        native.read_seconds(min(total, 1 << 28), threads) * max(1.0, total / (1 << 28)) if total > FLOOR_BYTES else None
    )
