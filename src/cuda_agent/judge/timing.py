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

import numpy as np

from cuda_agent.judge import device as devices
from cuda_agent.judge import native, statistics
from cuda_agent.judge.candidate import Candidate
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import InvalidTask
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.rounds import Clock, Pair, goes_on, take_turns, timed_mismatch
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import Call
from cuda_agent.judge.starting import WARM_UP_CALLS, Baseline, Started, at_once
from cuda_agent.judge.values import Value
from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.verdict import Interval, Status

PAIRS = 4
CAREFUL_PAIRS = 8
CAREFUL_STEP = 4
CAREFUL_WIDTH = 0.05
COMPILED_WIDTH = CAREFUL_WIDTH / 2**0.5
"""Of torch.compile over eager, so that its product with an interval as wide keeps CAREFUL_WIDTH."""
CAREFUL_SECONDS = 50.0
"""For all of a careful measurement, that of torch.compile included."""
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
    begun = time.monotonic() - spent_s
    pairs, long_lived = 0, secrets.randbelow(PAIRS)
    wanted = CAREFUL_PAIRS if settings.careful else PAIRS
    each_alone = False
    ahead = at_once(prepared, len(makers), PAIRS)
    with ThreadPoolExecutor(max(2, clock.threads)) as threads:
        waiting: list[tuple[list[Measured], Started]] = []
        used: list[Started] = []
        try:
            while any(m.ended is None for m in found):
                if not waiting:
                    contenders = [(m, make) for m, make in zip(found, makers, strict=True) if not m.ended]
                    theirs, starts = [m for m, _ in contenders], [make for _, make in contenders]
                    for _ in range(min(ahead, wanted - pairs)):
                        waiting.append((theirs, Started(threads, clock.workers, prepared, settings, starts)))
                    for _, started in waiting:
                        started.wait()
                    if prepared.layout.device != "cpu" and not clock.quiet(prepared.layout.device):
                        if len(theirs) > 1:
                            each_alone = True  # whose work it is shows when it has ended
                            break
                        for candidate in (c for _, started in waiting for c in started.candidates()):
                            if isinstance(candidate, Candidate):
                                candidate.close()
                        theirs[0].ended = theirs[0].ended or goes_on(clock, prepared.layout.device)
                measured, started = waiting.pop(0)
                used.append(started)
                _one_pair(clock, prepared, settings, measured, started, long_lived=pairs == long_lived)
                if ahead == 1:
                    used.pop().close()
                pairs += 1
                if pairs < wanted:
                    continue
                if not settings.careful:
                    break
                spent = time.monotonic() - begun
                in_time = spent + CAREFUL_STEP * (spent - spent_s) / pairs <= CAREFUL_SECONDS * len(makers)
                if not in_time or not any(m.ended is None and more_pairs_help(m, compile_over_eager) for m in found):
                    for one in found:
                        one.too_wide = too_wide(one, compile_over_eager)
                    break
                wanted = pairs + CAREFUL_STEP
        finally:
            for started in [*used, *(started for _, started in waiting)]:
                started.close()
    if each_alone:
        return [
            one if one.ended else measure(clock, prepared, settings, [make], compile_over_eager)[0]
            for one, make in zip(found, makers, strict=True)
        ]
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
    measured: Sequence[Measured],
    started: Started,
    long_lived: bool,
) -> None:
    """Times one fresh reference and a fresh worker of each candidate that is still in."""
    baseline, output = started.baseline()
    ready: list[tuple[Measured, Candidate]] = []
    for one, candidate in zip(measured, started.candidates(), strict=True):
        if isinstance(candidate, Rejected):
            one.ended = one.ended or candidate
        elif one.ended is None:
            ready.append((one, candidate))
    if not ready:
        return

    def look(i: int, theirs: Sequence[Call], ours: Sequence[Call]) -> None:
        _compare_timed(prepared, ready[i][1], theirs, ours, ready[i][0])

    null = clock.null(prepared, output)
    pairs = take_turns(clock, prepared, settings, baseline, [c for _, c in ready], null, look)
    if long_lived:
        for i, (_, candidate) in enumerate(ready):
            pairs[i] = _after_a_while(prepared, candidate, pairs[i], started.since)
    for (one, candidate), pair in zip(ready, pairs, strict=True):
        if isinstance(pair, Rejected):
            one.ended = pair
        else:
            _account(one, pair, candidate)


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
