"""The product from Python: what the commands `optimize`, `evaluate` and `profile` do."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cuda_agent.errors import TaskError, UsageError
from cuda_agent.judge import Judge, Mode, Precision, Protocol, Rules, Sandbox, Settings
from cuda_agent.solution import Solution
from cuda_agent.store import Event, Store
from cuda_agent.task import Task
from cuda_agent.verdict import Verdict

if TYPE_CHECKING:
    from torch import nn

    from cuda_agent.agent.policy import Policy
    from cuda_agent.agent.result import Result
    from cuda_agent.profiling import Profile

Path = str | pathlib.Path


def evaluate(
    task: Task | Path,
    solution: Solution | Path,
    *,
    rules: Rules = "any",
    precision: Precision = "fp32",
    protocol: Protocol = "strict",
    mode: Mode = "eval",
    careful: bool = False,
    device: str = "cpu",
    sanitize: bool = False,
    sandbox: Sandbox = "auto",
    store: Store | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """The verdict on one solution, which is in the store when this returns.

    A task or a solution may be given as a path; `progress` is told each stage as it begins. For many solutions of one
    task use `cuda_agent.judge.Judge`, which shares the inputs and the baselines between them. `sanitize` also looks for
    accesses outside of what a kernel was given, and for races. Raises UsageError for what cannot be read, MachineError
    for a machine that lacks something; what a task or a solution does wrong is a verdict.
    """
    task = task if isinstance(task, Task) else Task.from_file(task)
    solution = solution if isinstance(solution, Solution) else Solution.from_path(solution)
    settings = Settings(rules=rules, precision=precision, protocol=protocol, mode=mode, careful=careful, device=device)
    with _opened(store) as store, Judge(store=store, sandbox=sandbox) as judge:
        if not sanitize:
            return judge.evaluate(task, solution, settings, progress=progress)
        from cuda_agent.profiling.sanitizer import Sanitizer

        return judge.evaluate(task, solution, settings, progress=progress, inspect=Sanitizer(judge))


def profile(
    task: Task | Path,
    solution: Solution | Path,
    *,
    precision: Precision = "fp32",
    mode: Mode = "eval",
    device: str = "cpu",
    sandbox: Sandbox = "auto",
    progress: Callable[[str], None] | None = None,
) -> Profile:
    """What the solution's kernels do and what bounds them; whether it is right is `evaluate`'s to say.

    Raises UsageError for what cannot be read or judged, SolutionFailed (of `cuda_agent.profiling`) for a solution that
    does not build or run, MachineError for a machine that lacks something.
    """
    from cuda_agent.profiling import profile as profiled

    task = task if isinstance(task, Task) else Task.from_file(task)
    solution = solution if isinstance(solution, Solution) else Solution.from_path(solution)
    settings = Settings(precision=precision, mode=mode, device=device, measure=False)
    with Judge(sandbox=sandbox) as judge:
        return profiled(judge, task, solution, settings, progress or (lambda stage: None))


def optimize(
    target: Task | Path | nn.Module,
    inputs: Any = None,
    *,
    policy: str | Policy = "template",
    rules: Rules = "any",
    precision: Precision = "fp32",
    mode: Mode = "eval",
    seconds: float = 120.0,
    backend: str = "auto",
    out: Path = "runs",
    sandbox: Sandbox = "auto",
    store: Store | Path | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Result:
    """A verified faster version of a module, in a folder below `out`; `result.load(module)` makes it a module again.

    `target` is a live module with its example `inputs` (forward's arguments as a list, by name, or as one tensor), a
    task, a task's file, or "module:attribute". `backend` is what kernels are to be written for, where the policy has a
    choice. Raises UsageError and MachineError; KeyboardInterrupt loses nothing.
    """
    from cuda_agent.agent.optimize import optimize as search
    from cuda_agent.agent.trajectory import Budget

    task = as_task(target, inputs)
    settings = Settings(rules=rules, precision=precision, mode=mode)
    with _opened(store) as store:
        return search(
            task,
            policy=policy,
            settings=settings,
            budget=Budget(seconds=seconds),
            backend=backend,
            store=store,
            out=pathlib.Path(out),
            on_event=on_event,
            sandbox=sandbox,
        )


def resume(
    run: str | None = None,
    *,
    seconds: float | None = None,
    sandbox: Sandbox = "auto",
    store: Store | Path | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Result:
    """Goes on with a run that was killed or interrupted: by its id, by a task's file (its newest run), or the last.

    `seconds`: all that the run may take, instead of what it was started with."""
    from cuda_agent.agent.optimize import optimize as search
    from cuda_agent.agent.trajectory import Budget

    with _opened(store) as store:
        budget = None if seconds is None else Budget(seconds=seconds)
        return search(resume=_run_of(run, store), budget=budget, sandbox=sandbox, store=store, on_event=on_event)


def as_task(target: Task | Path | nn.Module, inputs: Any = None) -> Task:
    """The task that `target` is: a task, a file, `module:attribute`, or a live module with inputs. Raises TaskError."""
    if isinstance(target, Task):
        return target
    if isinstance(target, str) and ":" in target and not pathlib.Path(target).exists():
        return Task.from_reference(target)
    if isinstance(target, Path):
        return Task.from_file(target)
    if inputs is None:
        raise TaskError("a live module needs example inputs: optimize(module, inputs)")
    return Task.from_module(target, inputs)


def _run_of(name: str | None, store: Store) -> str:
    if name is None:
        return "last"
    if store.run(name) is not None or not pathlib.Path(name).is_file():
        return name
    task = Task.from_file(name)
    runs = [run.id for run in store.runs("optimize") if run.config.get("task") == task.id]
    if not runs:
        raise UsageError(f"{store} has no run of {name}")
    return runs[0]


@contextmanager
def _opened(store: Store | Path | None) -> Iterator[Store]:
    """A store that was given open stays open."""
    if isinstance(store, Store):
        yield store
    else:
        with Store(store) as opened:
            yield opened
