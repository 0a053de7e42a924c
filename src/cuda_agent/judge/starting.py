"""Fresh workers that are ready to be timed: a reference, and one for each candidate."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from cuda_agent.judge import device as devices
from cuda_agent.judge.candidate import Candidate
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import Reference
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.sample import Sample
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import Call
from cuda_agent.judge.values import Value
from cuda_agent.judge.workers import TASK, Workers

COMPILE_TIMEOUT_S = 180.0
WARM_UP_CALLS = 4
CONTEXT_BYTES = 1 << 30
"""What a worker takes of a device besides its tensors, roughly."""


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


class Started:
    """A reference and a worker for each of `makers`, started side by side and after their first calls."""

    def __init__(
        self,
        threads: ThreadPoolExecutor,
        workers: Workers,
        prepared: Prepared,
        settings: Settings,
        makers: Sequence[Callable[[], Candidate]],
    ) -> None:
        self._threads, self.since = threads, time.monotonic()
        self._first = threads.submit(_baseline, workers, prepared, settings)
        self._others = [threads.submit(_candidate, prepared, make) for make in makers]

    def wait(self) -> None:
        futures: list[Future[object]] = [self._first, *self._others]  # type: ignore[list-item]
        wait(futures)

    def baseline(self) -> tuple[Baseline, Value]:
        """The reference, and an output of it. Raises InvalidTask or WorkerFault if it failed."""
        return self._first.result()

    def candidates(self) -> list[Candidate | Rejected]:
        return [future.result() for future in self._others]

    def close(self) -> None:
        self.wait()
        sides: list[Baseline | Candidate] = []
        if self._first.exception() is None:
            sides.append(self._first.result()[0])
        found = [future.result() for future in self._others if future.exception() is None]
        sides += [side for side in found if isinstance(side, Candidate)]
        list(self._threads.map(lambda side: side.close(), sides))


def at_once(prepared: Prepared, candidates: int, most: int) -> int:
    """How many such groups start at once. On a CPU they would be in each other's way, on a device, where they wait
    frozen, they take nothing but memory."""
    layout = prepared.layout
    if layout.device == "cpu" or layout.lean:
        return 1
    size = CONTEXT_BYTES + layout.total + 3 * layout.turn * layout.outputs_bytes
    return max(1, min(most, devices.free_bytes(layout.device) // 2 // (size * (1 + candidates))))


def warm_up_samples(prepared: Prepared) -> list[Sample]:
    samples = [s for s in prepared.samples if s.state == 0]
    return [samples[0], *(secrets.choice(samples) for _ in range(WARM_UP_CALLS - 1))]


def _baseline(workers: Workers, prepared: Prepared, settings: Settings) -> tuple[Baseline, Value]:
    baseline = Baseline(workers, prepared, settings)
    try:
        outputs = [baseline.calls([sample.inputs], [True])[0].output for sample in warm_up_samples(prepared)]
    except BaseException:
        baseline.close()
        raise
    assert outputs[-1] is not None
    return baseline, outputs[-1]


def _candidate(prepared: Prepared, make: Callable[[], Candidate]) -> Candidate | Rejected:
    """After its first calls, which are checked against the right answers."""
    candidate: Candidate | None = None
    try:
        candidate = make()
        for sample in warm_up_samples(prepared):
            candidate.warm_up(sample, prepared.states)
    except Rejected as end:
        if candidate is not None:
            candidate.close()
        return end
    except BaseException:
        if candidate is not None:
            candidate.close()
        raise
    return candidate
