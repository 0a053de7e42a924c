"""The judge: is a solution right, is it allowed, how fast is it. Resident: what it learns of a task it keeps.

    build → run → compare (→ rules) → time → verdict          each stage ends the evaluation when it fails

Builds and checks of several candidates run side by side; a measurement has the machine to itself.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from cuda_agent import reward
from cuda_agent.errors import MachineError
from cuda_agent.judge import machine, native, rules, timing
from cuda_agent.judge.builds import BuiltSolution, build
from cuda_agent.judge.candidate import BY_ORDER, BY_SEED, Candidate, guards_of, order_of_checks
from cuda_agent.judge.prepared import InvalidTask, Prepared, prepare
from cuda_agent.judge.quiet import Quiet
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.judge.workers import Workers, memory_limit
from cuda_agent.runtime import BuildCache
from cuda_agent.sandbox import Limits
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Check, Interval, Speedup, Stage, Status, Times, Verdict

Sandbox = Literal["require", "auto", "off"]
Progress = Callable[[str], None]

KEPT_TASKS = 4
MAX_GROUP = 8
"""Candidates that are timed side by side."""
WORKER_BYTES = 256 << 20
"""What a worker needs besides its share of the task's tensors, roughly."""
SURPRISING = 50.0
"""A speed-up above this is flagged for a person."""
DEFAULT_SETTINGS = Settings()


class Judge:
    """Evaluates solutions. Thread-safe; `close` ends its workers. Verdicts go to `store` before they are returned.

    `sandbox`: `require` refuses to run with fewer guards than there are, `auto` runs with those that the machine
    allows and flags the missing ones, `off` runs without namespaces (for looking into faults only).
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        sandbox: Sandbox = "auto",
        cache: BuildCache | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.store, self.sandbox = store, sandbox
        self.cache = cache or BuildCache.from_environment()
        self._limits = limits
        self._workers: Workers | None = None
        self._clock: timing.Clock | None = None
        self._lock = threading.Lock()
        self._preparing: dict[tuple[Any, ...], threading.Lock] = {}
        self._prepared: OrderedDict[tuple[Any, ...], Prepared | InvalidTask] = OrderedDict()
        self._compiled: dict[str, timing.Compiled] = {}
        self._quiet = Quiet()
        self._closed = False
        threading.Thread(target=self._start, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every worker; an evaluation that still runs in another thread ends as `judge_error`."""
        with self._lock:
            self._closed = True
            if self._workers is not None:
                self._workers.close()
            self._workers, self._clock = None, None
            self._prepared.clear()

    # -- what others ask --------------------------------------------------------------------------------------------

    def evaluate(
        self,
        task: Task,
        solution: Solution,
        settings: Settings = DEFAULT_SETTINGS,
        *,
        run: str | None = None,
        progress: Progress | None = None,
    ) -> Verdict:
        """The verdict on one solution. Raises nothing that task or solution cause; MachineError becomes judge_error."""
        return _Evaluation(self, task, solution, settings, run, progress).verdict()

    def evaluate_many(
        self,
        task: Task,
        solutions: Sequence[Solution],
        settings: Settings = DEFAULT_SETTINGS,
        *,
        run: str | None = None,
    ) -> list[Verdict]:
        """Verdicts in the order of `solutions`. All are built and checked first, side by side; those that are right
        are then timed, several against one reference at a time."""
        evaluations = [_Evaluation(self, task, s, settings, run, None) for s in solutions]
        with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as threads:
            try:
                list(threads.map(_Evaluation.check, evaluations))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise
        _time_in_groups(self, evaluations)
        return [evaluation.verdict() for evaluation in evaluations]

    def build(self, solution: Solution) -> Verdict:
        """Compiles the kernels and nothing else: status correct at stage build, or build_error."""
        started = time.monotonic()
        try:
            with self._quiet.shared():
                built = build(self.workers(), solution, self.cache, self.sandbox == "require")
            built.remove()
            status, message = Status.CORRECT, "builds"
        except Rejected as end:
            status, message = end.status, end.message
        except MachineError as error:
            status, message = Status.JUDGE_ERROR, str(error)
        return Verdict(
            status=status,
            message=message,
            stage="build",
            solution=solution.id,
            seconds={"build": time.monotonic() - started},
        )

    def check_task(self, task: Task, settings: Settings = DEFAULT_SETTINGS) -> Verdict | None:
        """None if the task can be judged; else the verdict invalid_task that says why."""
        self.expect_measuring(task, settings)
        found = self.prepared(task, settings)
        if isinstance(found, Prepared):
            return None
        return Verdict(status=Status.INVALID_TASK, message=str(found), stage="task", task=task.id)

    def baseline(self, task: Task, settings: Settings = DEFAULT_SETTINGS) -> timing.Compiled | None:
        """Measures torch.compile against eager, or takes it from the store; None for a task that cannot be judged."""
        prepared = self.prepared(task, settings)
        if not isinstance(prepared, Prepared):
            return None
        with self._quiet.exclusive():
            return self.compiled(prepared, settings)

    # -- what an evaluation needs -----------------------------------------------------------------------------------

    def _start(self) -> None:
        with contextlib.suppress(MachineError):
            self.workers()

    def workers(self) -> Workers:
        with self._lock:
            if self._closed:
                raise MachineError("the judge is closed")
            if self._workers is None:
                native.load()
                self._workers = Workers(isolate=self.sandbox != "off", limits=self._limits)
                self._clock = timing.Clock(self._workers)
            return self._workers

    def clock(self) -> timing.Clock:
        self.workers()
        assert self._clock is not None
        return self._clock

    def quiet(self) -> Quiet:
        return self._quiet

    def prepared(self, task: Task, settings: Settings, seeded: bool = False) -> Prepared | InvalidTask:
        """What is known of the task under these settings, prepared once; `seeded`: with parameters as constructed."""
        key = (task.id, *settings.task_key, seeded)
        with self._lock:
            lock = self._preparing.setdefault(key, threading.Lock())
        with lock:
            with self._lock:
                if key in self._prepared:
                    self._prepared.move_to_end(key)
                    return self._prepared[key]
            workers = self.workers()
            try:
                with self._quiet.shared():
                    found: Prepared | InvalidTask = prepare(workers, task, settings, seeded)
            except InvalidTask as error:
                found = error
            with self._lock:
                self._prepared[key] = found
                while len(self._prepared) > KEPT_TASKS:
                    _, old = self._prepared.popitem(last=False)
                    if isinstance(old, Prepared) and self._clock is not None:
                        self._clock.forget(old)
            return found

    def compiled(self, prepared: Prepared, settings: Settings) -> timing.Compiled:
        """torch.compile against eager: measured once per task, contract, machine and versions; anew when careful.

        The caller has the machine to itself (`quiet().exclusive()`)."""
        key = machine.baseline_key(prepared.task, settings)
        known = self._known_baseline(prepared.task, settings)
        if known is not None:
            return known
        pairs = timing.CAREFUL_PAIRS if settings.careful else timing.COMPILE_PAIRS
        found = timing.measure_compiled(self.clock(), prepared, settings, pairs)
        self._compiled[key] = found
        if self.store is not None:
            data = {"log_ratios": list(found.log_ratios), "why": found.why, "compile_s": found.compile_s}
            self.store.save_baseline(key, data)
        return found

    def _known_baseline(self, task: Task, settings: Settings) -> timing.Compiled | None:
        """What was measured before, unless care is asked for."""
        if settings.careful:
            return None
        key = machine.baseline_key(task, settings)
        stored = self.store.baseline(key) if self.store is not None and key not in self._compiled else None
        if stored is not None:
            self._compiled[key] = timing.Compiled(tuple(stored["log_ratios"]), stored["why"], stored["compile_s"])
        return self._compiled.get(key)

    def expect_measuring(self, task: Task, settings: Settings) -> None:
        """Starts importing torch.compile now if it will be needed: that takes seconds, beside other work."""
        if settings.measure and self._known_baseline(task, settings) is None:
            self.workers().warm_compiler()


class _Evaluation:
    """One solution on its way through the stages."""

    def __init__(
        self,
        judge: Judge,
        task: Task,
        solution: Solution,
        settings: Settings,
        run: str | None,
        progress: Progress | None,
    ) -> None:
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
        if self.built is not None:
            self.built.remove()
        return self._written()

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
                    judge.workers(), self.solution, judge.cache, judge.sandbox == "require", settings.build_timeout_s
                )
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
        return self.ended is None and self.settings.measure and self.measured is None

    def timed(self, measured: timing.Measured, compiled: timing.Compiled, seconds: dict[str, float]) -> None:
        """Takes what was measured, or why it could not be."""
        self.measured, self.compiled = measured, compiled
        self.seconds |= {name: round(value, 4) for name, value in seconds.items()}
        self.guards += measured.guards
        self.ended = measured.ended
        if self.ended is None:
            self.guarded(lambda: self._compare_claim(measured))

    def _compare_claim(self, measured: timing.Measured) -> None:
        """The worker's own time must not contradict the keeper's."""
        if not measured.spans:
            raise Rejected(Status.FORBIDDEN, "time", "its worker hides its own clock")
        own, claimed = np.asarray(measured.spans).T
        hidden = float(np.median(own - claimed)) - measured.null_s
        longer = float(np.mean(claimed > own + 1e-4))
        agrees = longer < 0.5 and hidden < max(1e-3, 0.5 * float(np.median(own)))
        detail = f"the worker's own clock says {np.median(claimed) * 1e6:.0f} us a call, the keeper's "
        detail += f"{np.median(own) * 1e6:.0f} us, of which an empty call takes {measured.null_s * 1e6:.0f} us"
        self.checks.append(Check(name="clock", passed=agrees, detail=detail, source="claimed"))
        if not agrees:
            raise Rejected(Status.FORBIDDEN, "time", detail)
        self.checks.append(
            Check(name="timed outputs", passed=True, detail=f"{measured.compared} outputs of timed calls compared")
        )

    # -- the record -------------------------------------------------------------------------------------------------

    def _written(self) -> Verdict:
        verdict = self._record()
        verdict = verdict.model_copy(update={"rewards": reward.all_rewards(verdict)})
        if self.judge.store is not None:
            verdict = self.judge.store.save_verdict(verdict, self.task, self.solution, self.run)
        return verdict

    def _record(self) -> Verdict:
        settings, measured = self.settings, self.measured
        speedup, times = Speedup(), Times()
        if self.ended is None and measured is not None and self.prepared is not None:
            speedup, times = self._figures(measured, self.prepared)
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
            device=machine.device(),
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

    def _figures(self, measured: timing.Measured, prepared: Prepared) -> tuple[Speedup, Times]:
        compiled = self.compiled or timing.Compiled(())
        eager = measured.eager
        times = self._times(measured, compiled)
        floor = timing.floor_s(prepared, os.cpu_count() or 1)
        if floor is not None:
            times = times.model_copy(update={"floor": floor * 1e6})
            if times.candidate is not None and times.candidate < 0.9 * floor * 1e6:
                self.flags.append("below_floor: faster than its data can be read; no measurement")
                return Speedup(), Times(floor=floor * 1e6)
        self._doubts(measured, eager, compiled)
        return Speedup(eager=eager, compile=measured.compiled(compiled.log_ratios) if eager else None), times

    def _times(self, measured: timing.Measured, compiled: timing.Compiled) -> Times:
        eager_us = float(np.median(measured.eager_s)) * 1e6
        ratio = float(np.exp(np.mean(compiled.log_ratios))) if compiled.log_ratios else None
        return Times(
            candidate=float(np.median(measured.candidate_s)) * 1e6,
            eager=eager_us,
            compile=eager_us * ratio if ratio is not None else None,
            prepare=measured.prepare_s * 1e6 if measured.prepare_s is not None else None,
        )

    def _doubts(self, measured: timing.Measured, eager: Interval | None, compiled: timing.Compiled) -> None:
        if eager is None:
            self.flags.append("too fast to time: a call costs no more than an empty one")
        elif eager.median > SURPRISING:
            self.flags.append(f"a very large speed-up ({eager.median:.0f}x): look at it")
        if float(np.median(measured.eager_s)) < timing.TOO_FAST_S:
            self.flags.append("the reference takes less than 20 us: calling costs more than computing")
        if measured.loud > 0.25:
            self.flags.append(f"loaded machine: something else ran in {measured.loud:.0%} of the rounds")
        if not measured.enough:
            self.flags.append("the interval did not get narrow enough in the time allowed: the machine is too loud")
        if compiled.why:
            self.flags.append(f"no torch.compile baseline: {compiled.why}")

    def _message(self, speedup: Speedup) -> str:
        if not self.settings.measure:
            return "right on all samples"
        if speedup.eager is None:
            return "right; not timed"
        return f"right; {speedup.eager.median:.2f} times as fast as eager PyTorch"


def _time_in_groups(judge: Judge, evaluations: Sequence[_Evaluation]) -> None:
    """Those that share what they are measured on, as many at once as fit into the memory."""
    waiting = [e for e in evaluations if e.to_time()]
    while waiting:
        prepared = waiting[0].prepared
        assert prepared is not None
        alike = [e for e in waiting if e.prepared is prepared]
        size = prepared.layout.total + 4 * prepared.layout.outputs_bytes + WORKER_BYTES
        group = alike[: max(1, min(MAX_GROUP, memory_limit() // (4 * size)))]
        _time_together(judge, group)
        waiting = [e for e in waiting if e not in group]


def _time_together(judge: Judge, group: Sequence[_Evaluation]) -> None:
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
