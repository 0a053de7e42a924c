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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Self

from cuda_agent.errors import MachineError
from cuda_agent.judge import device as devices
from cuda_agent.judge import machine, native, timing
from cuda_agent.judge.builds import build, import_once
from cuda_agent.judge.evaluation import Evaluation, Inspect, Progress, time_in_groups
from cuda_agent.judge.prepared import Prepared, prepare
from cuda_agent.judge.quiet import Quiet
from cuda_agent.judge.reference import InvalidTask
from cuda_agent.judge.rejected import Rejected
from cuda_agent.judge.rounds import Clock
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.workers import Workers
from cuda_agent.runtime import BuildCache
from cuda_agent.sandbox import Limits
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

Sandbox = Literal["require", "auto", "off"]

KEPT_TASKS = 4
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
        self._clock: Clock | None = None
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
        inspect: Inspect | None = None,
    ) -> Verdict:
        """The verdict on one solution. Raises nothing that task or solution cause; MachineError becomes judge_error.

        `inspect` is shown the verdict and what it is about before it is stored, and may add to it."""
        return Evaluation(self, task, solution, settings, run, progress, inspect).verdict()

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
        evaluations = [Evaluation(self, task, s, settings, run, None) for s in solutions]
        with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as threads:
            try:
                list(threads.map(Evaluation.check, evaluations))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.close()
                raise
        time_in_groups(self, evaluations)
        return [evaluation.verdict() for evaluation in evaluations]

    def build(self, solution: Solution) -> Verdict:
        """Compiles the kernels and nothing else: status correct at stage build, or build_error."""
        started = time.monotonic()
        try:
            with self._quiet.shared():
                built = build(self.workers(), solution, self.cache, self.sandbox == "require")
                try:
                    if solution.triton:  # Python's own errors are all that there is before a call
                        import_once(self.workers(), built)
                finally:
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
                self._clock = Clock(self._workers)
            return self._workers

    def clock(self) -> Clock:
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
            self._forget_large(settings.device)
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

    def _forget_large(self, device: str) -> None:
        """Tasks whose tensors take a good part of the device."""
        with self._lock:
            for key, found in list(self._prepared.items()):
                if isinstance(found, Prepared) and found.layout.lean and found.layout.device == device:
                    del self._prepared[key]
                    if self._clock is not None:
                        self._clock.forget(found)
        devices.release(device)

    def compiled(self, prepared: Prepared, settings: Settings) -> timing.Compiled:
        """torch.compile against eager: measured once per task, contract, machine and versions; anew when careful.

        The caller has the machine to itself (`quiet().exclusive()`)."""
        key = machine.baseline_key(prepared.task, settings)
        known = self._known_baseline(prepared.task, settings)
        if known is not None:
            return known
        found = timing.measure_compiled(self.clock(), prepared, settings)
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
