"""One solution on its way through the stages, and several of them timed side by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from cuda_agent import reward
from cuda_agent.backends import triton
from cuda_agent.errors import MachineError
from cuda_agent.judge import device as devices
from cuda_agent.judge import machine, rules, timing
from cuda_agent.judge.ahead import compile_ahead
from cuda_agent.judge.builds import BuiltSolution, build
from cuda_agent.judge.candidate import BY_ORDER, BY_SEED, Candidate, guards_of, order_of_checks
from cuda_agent.judge.figures import clock, figures
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import InvalidTask
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.triton_mode import mode_on
from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.judge.workers import memory_limit
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Check, Speedup, Stage, Status, Times, Verdict

if TYPE_CHECKING:
    from cuda_agent.judge.judge import Judge

Progress = Callable[[str], None]
Inspect = Callable[[Verdict, Prepared, BuiltSolution, Solution, Settings], Verdict]
"""Adds to a verdict what it finds in the solution that was built."""

MAX_GROUP = 8
"""Candidates that are timed side by side."""
INTERPRETED = "not timed: on a CPU Triton's kernels are interpreted, which says nothing of their speed"
WORKER_BYTES = 256 << 20
"""What a worker needs besides its share of the task's tensors, roughly."""


class Evaluation:
    """One solution on its way through the stages."""

    def __init__(
        self,
        judge: Judge,
        task: Task,
        solution: Solution,
        settings: Settings,
        run: str | None,
        progress: Progress | None,
        inspect: Inspect | None = None,
    ) -> None:
        self.inspect = inspect
        self.judge, self.task, self.solution, self.settings, self.run = judge, task, solution, settings, run
        self.progress = progress or (lambda stage: None)
        self.seconds: dict[str, float] = {}
        self.checks: list[Check] = []
        self.flags: list[str] = []
        self.guards: list[dict[str, bool]] = []
        self.prepared: Prepared | None = None
        self.built: BuiltSolution | None = None
        self.ended: Rejected | None = None
        self.checked = False
        self.measured: timing.Measured | None = None
        self.compiled: timing.Compiled | None = None

    def verdict(self) -> Verdict:
        self.check()
        if self.to_time():
            _time_together(self.judge, [self])
        verdict = self._inspected(self._record())
        if self.built is not None:
            self.built.remove()
        return self._written(verdict)

    def check(self) -> None:
        """Everything up to the timing."""
        if not self.checked:
            self.checked = True
            self.guarded(self._check)

    def guarded(self, stage: Callable[[], None]) -> None:
        try:
            stage()
        except Rejected as end:
            self.ended = end
        except InvalidTask as error:
            self.ended = Rejected(Status.INVALID_TASK, "task", str(error))
        except (MachineError, WorkerFault) as error:
            self.ended = Rejected(Status.JUDGE_ERROR, "run", str(error))
        except MemoryError:
            self.ended = Rejected(Status.JUDGE_ERROR, "run", "the judge ran out of memory")
        except RuntimeError as error:  # what torch and the driver raise when a device is full, or gone
            device = self.settings.device
            if device == "cpu":
                raise
            first = str(error).strip().partition("\n")[0]
            self.ended = Rejected(Status.JUDGE_ERROR, "run", f"the device {device} failed the judge: {first}")
        except OSError as error:
            self.ended = Rejected(Status.JUDGE_ERROR, "run", f"{error.strerror or error} ({error.filename or 'judge'})")

    @contextlib.contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.progress(name)
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - started, 4)

    # -- stages -----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        judge, settings = self.judge, self.settings
        if self.solution.triton:
            triton.require(settings.device)
        if self.measures:
            judge.expect_measuring(self.task, settings)
        with self._stage("task"):
            found = judge.prepared(self.task, settings)
        if isinstance(found, InvalidTask):
            raise found
        self.prepared = found
        self.flags += found.flags
        self.guards.append(found.guards)
        self._require_guards(found.guards)
        with judge.quiet().shared():
            with self._stage("build"):
                self.built = build(
                    judge.workers(),
                    self.solution,
                    judge.cache,
                    judge.sandbox == "require",
                    settings.device,
                    settings.build_timeout_s,
                )
                self._compile_ahead(found)
            with self._stage("run"):
                candidate = self.candidate()
            by_seed = candidate.match.how == BY_SEED and bool(found.layout.rows)
            if not by_seed:
                self._check_candidate(candidate, found)
                return
            candidate.close()
        self.flags.append("parameters could not be loaded by name: both sides were built from the same seed")
        with self._stage("task"):
            again = judge.prepared(self.task, settings, seeded=True)
        if isinstance(again, InvalidTask):
            raise again
        self.prepared = again
        with judge.quiet().shared():
            self._check_candidate(self.candidate(), again)

    def _compile_ahead(self, prepared: Prepared) -> None:
        """Triton's kernels, which are compiled by calls."""
        built, judge = self.built, self.judge
        if built is None or not built.triton:
            return
        if built.triton == "interpreted":
            self.flags.append(INTERPRETED)
        self.checks.append(compile_ahead(judge.workers(), self.solution, built, prepared, self.settings, judge.cache))

    @property
    def measures(self) -> bool:
        """Whether it is to be timed: what Triton's interpreter takes says nothing."""
        return self.settings.measure and not (self.solution.triton and mode_on(self.settings.device) == "interpreted")

    def _check_candidate(self, candidate: Candidate, prepared: Prepared) -> None:
        try:
            with self._stage("compare"):
                self._compare(candidate, prepared)
            if self.settings.rules != "any":
                with self._stage("rules"):
                    self._rules(candidate, prepared)
        finally:
            candidate.close()

    def candidate(self, disable_kernels: bool = False) -> Candidate:
        assert self.built is not None and self.prepared is not None
        return Candidate(self.judge.workers(), self.built, self.prepared, self.settings, disable_kernels)

    def _require_guards(self, guards: dict[str, bool]) -> None:
        missing = [name for name, active in guards.items() if not active]
        if missing and self.judge.sandbox == "require":
            raise MachineError(
                f"the sandbox lacks {', '.join(missing)} and was required; `cuda-agent doctor` says how to get it"
            )
        if missing:
            self.flags.append(f"fewer guards: no {', '.join(missing)}")

    def _compare(self, candidate: Candidate, prepared: Prepared) -> None:
        self.guards.append(candidate.guards)
        if candidate.match.how == BY_ORDER:
            self.flags.append("parameters matched by their order, not by their names")
        generator = np.random.default_rng()
        done = []
        for sample in order_of_checks(prepared.samples, generator):
            candidate.check(sample, prepared.states)
            done.append(sample.name)
        names = ", ".join(dict.fromkeys(done))
        self.checks.append(Check(name="outputs", passed=True, detail=f"{len(done)} calls: {names}"))

    def _rules(self, candidate: Candidate, prepared: Prepared) -> None:
        """What ran, and whether the own kernels matter: made no-ops, they must change the output."""
        name, sample = self.settings.rules, prepared.samples[0]
        operators, libraries = candidate.audit(sample, prepared.states)
        assert self.built is not None
        own = [file for entry in self.built.entries for file in Path(entry).glob("*.so")]
        fault = rules.broken_by_operators(name, operators) or rules.broken_by_libraries(name, libraries)
        fault = fault or rules.broken_by_symbols(name, own)
        if fault is None and self.solution.kernels and self._right_without_kernels(prepared):
            fault = f"rules {name}: its output is right with its own kernels left out: they are a decoy"
        self.checks.append(Check(name="rules", passed=fault is None, detail=fault or name, source="claimed"))
        if fault is not None:
            raise Rejected(Status.FORBIDDEN, "compare", fault)

    def _right_without_kernels(self, prepared: Prepared) -> bool:
        try:
            candidate = self.candidate(disable_kernels=True)
        except Rejected:
            return False
        try:
            for sample in prepared.samples[:2]:
                candidate.check(sample, prepared.states)
        except Rejected:
            return False
        finally:
            candidate.close()
        return True

    def to_time(self) -> bool:
        return self.ended is None and self.measures and self.measured is None

    def timed(self, measured: timing.Measured, compiled: timing.Compiled, seconds: dict[str, float]) -> None:
        """Takes what was measured, or why it could not be."""
        self.measured, self.compiled = measured, compiled
        self.seconds |= {name: round(value, 4) for name, value in seconds.items()}
        self.guards += measured.guards
        self.ended = measured.ended
        if self.ended is None:
            self.guarded(lambda: self._compare_claim(measured))

    def _compare_claim(self, measured: timing.Measured) -> None:
        """What the worker says of its own time, beside the keeper's."""
        check = clock(measured)
        self.checks.append(check)
        if check.passed is False:
            raise Rejected(Status.FORBIDDEN, "time", check.detail)
        if check.passed is None:
            self.flags.append(f"loaded machine: {check.detail}")
        self.checks.append(
            Check(name="timed outputs", passed=True, detail=f"{measured.compared} outputs of timed calls compared")
        )

    # -- the record -------------------------------------------------------------------------------------------------

    def _inspected(self, verdict: Verdict) -> Verdict:
        if self.inspect is None or self.built is None or self.prepared is None:
            return verdict
        with self._stage("inspect"):
            verdict = self.inspect(verdict, self.prepared, self.built, self.solution, self.settings)
        return verdict.model_copy(update={"seconds": self.seconds})

    def _written(self, verdict: Verdict) -> Verdict:
        verdict = verdict.model_copy(update={"rewards": reward.all_rewards(verdict)})
        if self.judge.store is not None:
            verdict = self.judge.store.save_verdict(verdict, self.task, self.solution, self.run)
        return verdict

    def _record(self) -> Verdict:
        settings, measured = self.settings, self.measured
        speedup, times = Speedup(), Times()
        if self.ended is None and measured is not None and self.prepared is not None:
            speedup, times, doubts = figures(measured, self.compiled or timing.Compiled(()), self.prepared)
            self.flags += doubts
        status = Status.CORRECT if self.ended is None else self.ended.status
        stage: Stage = "done" if self.ended is None else self.ended.stage
        return Verdict(
            status=status,
            message=self._message(speedup) if self.ended is None else self.ended.message,
            stage=stage,
            task=self.task.id,
            solution=self.solution.id,
            speedup=speedup,
            time_us=times,
            flags=list(dict.fromkeys(self.flags)),
            checks=self.checks,
            guards=guards_of(*self.guards),
            device=machine.device(settings.device),
            precision=settings.precision,
            rules=settings.rules,
            protocol=settings.protocol,
            mode=settings.mode,
            careful=settings.careful,
            versions=machine.versions(),
            seconds=self.seconds,
            provenance=_PROVENANCE,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _message(self, speedup: Speedup) -> str:
        if not self.measures:
            return "right on all samples" + (f"; {INTERPRETED}" if self.settings.measure else "")
        if speedup.eager is None:
            return "right; not timed"
        return f"right; {speedup.eager.median:.2f} times as fast as eager PyTorch"


def time_in_groups(judge: Judge, evaluations: Sequence[Evaluation]) -> None:
    """Those that share what they are measured on, as many at once as fit into the memory."""
    waiting = [e for e in evaluations if e.to_time()]
    while waiting:
        prepared = waiting[0].prepared
        assert prepared is not None
        alike = [e for e in waiting if e.prepared is prepared]
        size = prepared.layout.total + prepared.layout.room + 4 * prepared.layout.outputs_bytes + WORKER_BYTES
        device = prepared.layout.device
        room = memory_limit() // 4 if device == "cpu" else devices.free_bytes(device) // 2
        group = alike[: max(1, min(MAX_GROUP, room // size))]
        _time_together(judge, group)
        waiting = [e for e in waiting if e not in group]


def _time_together(judge: Judge, group: Sequence[Evaluation]) -> None:
    """Times candidates of one task side by side; each is charged its share of the seconds."""
    first = group[0]
    prepared, settings = first.prepared, first.settings
    assert prepared is not None
    marks = [time.monotonic()]

    def stage(name: str) -> None:
        marks.append(time.monotonic())
        for evaluation in group:
            evaluation.progress(name)

    def run() -> None:
        stage("queue")
        with judge.quiet().exclusive():
            stage("baseline")
            started = time.monotonic()
            compiled = judge.compiled(prepared, settings)
            stage("time")
            makers = [evaluation.candidate for evaluation in group]
            spent_s = time.monotonic() - started
            found = timing.measure(judge.clock(), prepared, settings, makers, compiled.log_ratios, spent_s)
        marks.append(time.monotonic())
        spent = dict(zip(("queue", "baseline", "time"), np.diff(marks[1:]) / len(group), strict=True))
        for evaluation, measured in zip(group, found, strict=True):
            evaluation.timed(measured, compiled, spent)

    first.guarded(run)
    for other in group[1:]:
        other.ended = other.ended or (first.ended if other.measured is None else None)


_PROVENANCE: dict[str, Literal["measured", "claimed"]] = {
    "status": "measured",
    "speedup": "measured",
    "time_us": "measured",
    "time_us.prepare": "claimed",
    "rewards": "measured",
    "checks": "measured",
    "guards": "measured",
    "device": "measured",
    "seconds": "measured",
}
