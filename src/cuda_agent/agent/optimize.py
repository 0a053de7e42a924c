"""`optimize`: a task in, a verified faster solution out, with everything on record.

    create or resume a run → the episode (policy and tools) → the winner judged again with care → the result folder

The winner of many noisy times looks better than it is, so the numbers of the search are never reported: the best is
judged anew, with new secret inputs and new processes, and where it fails that, the next best is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_agent.agent.loop import Episode, OnEvent
from cuda_agent.agent.policy import Policy, check_backend, load_policy
from cuda_agent.agent.report import example, report
from cuda_agent.agent.result import Result
from cuda_agent.agent.skill import opening, skill_text
from cuda_agent.agent.trajectory import Budget, Judged, Trajectory
from cuda_agent.agent.workspace import Workspace
from cuda_agent.errors import CudaAgentError, TaskError, UsageError
from cuda_agent.sandbox import Runner, SandboxedRunner, run_plain
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Status

if TYPE_CHECKING:
    from cuda_agent.judge import Judge, Settings

Sandbox = Literal["auto", "require", "off"]
KIND = "optimize"
LAST = "last"
MAX_CONFIRMED = 3
"""How many of the best are judged again before giving up."""
RESERVE_S = 65.0
"""Of the budget's seconds, what is kept for judging the winner again; a half where the budget is small."""


@dataclass(frozen=True)
class _Job:
    """A run with what it was started with."""

    run: str
    task: Task
    policy: str | Policy
    settings: Settings
    budget: Budget
    folder: Path
    backend: str = "auto"

    @property
    def policy_name(self) -> str:
        return self.policy if isinstance(self.policy, str) else type(self.policy).__name__


def optimize(
    task: Task | None = None,
    *,
    policy: str | Policy = "template",
    settings: Settings | None = None,
    budget: Budget | None = None,
    store: Store,
    out: Path = Path("runs"),
    on_event: OnEvent = lambda event: None,
    resume: str | None = None,
    sandbox: Sandbox = "auto",
    backend: str = "auto",
) -> Result:
    """Optimises `task` in `out`/RUN, or goes on with the run `resume` ("last" is the newest), whose task, settings and
    budget hold unless others are given.

    `on_event` sees each event when it is stored. Raises UsageError (TaskError where the task cannot be judged) and
    MachineError. KeyboardInterrupt passes through; nothing is lost by it: the best so far is in the folder.
    """
    from cuda_agent.judge import Judge, Settings

    if resume is not None:
        job = _resumed(store, resume, policy, budget)
    elif task is not None:
        job = _created(store, task, policy, settings or Settings(), budget or Budget(), out, backend)
    else:
        raise UsageError("nothing to optimise: give a task, or a run to go on with")
    with _locked(job), Judge(store=store, sandbox=sandbox) as judge:
        episode = _episode(job, judge, store, on_event, _runner(sandbox))
        try:
            store.update_run(job.run, status="running")
            _begin(episode, job, resumed=resume is not None)
            episode.run()
            winner = _confirm(episode)
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            store.update_run(job.run, status="interrupted" if interrupted else "failed", result={"error": str(error)})
            if episode.trajectory.best is not None:
                with suppress(OSError, CudaAgentError):  # what ended the run is what the caller must hear
                    _write(job, store, episode.trajectory, episode.trajectory.best, episode.runner)
            raise
        result = _write(job, store, episode.trajectory, winner, episode.runner)
    store.update_run(job.run, status="finished", result=_summary(result))
    return result


def _created(
    store: Store, task: Task, policy: str | Policy, settings: Settings, budget: Budget, out: Path, backend: str
) -> _Job:
    name = policy if isinstance(policy, str) else type(policy).__name__
    # an unknown name ends here, before anything is made
    check_backend(load_policy(policy) if isinstance(policy, str) else policy, name, backend)
    out = _made(out.expanduser().absolute())
    config = {"target": task.name, "task": task.id, "policy": name, "settings": asdict(settings), "backend": backend}
    store.save_task(task)
    run = store.create_run(KIND, {**config, "budget": asdict(budget)})
    folder = _made(out / run)
    store.update_run(run, config={**config, "budget": asdict(budget), "folder": str(folder)})
    return _Job(run, task, policy, settings, budget, folder, backend)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the result folder {folder} cannot be made: {error.strerror}; give another place") from None
    return folder


def _resumed(store: Store, name: str, policy: str | Policy, budget: Budget | None) -> _Job:
    from cuda_agent.judge import Settings

    run = store.last_run(KIND) if name == LAST else store.run(name)
    if run is None or run.kind != KIND or "folder" not in run.config:
        known = ", ".join(r.id for r in store.runs(KIND, limit=5)) or "none"
        raise UsageError(f"there is no run {name!r} to go on with in {store}; the newest are: {known}")
    config: dict[str, Any] = dict(run.config)
    task = store.task(config["task"])
    if task is None:
        raise UsageError(f"the task of run {run.id} is not in {store}")
    chosen = policy if not isinstance(policy, str) else config["policy"]
    budget = budget or Budget(**config["budget"])
    settings, backend = Settings(**config["settings"]), config.get("backend", "auto")
    return _Job(run.id, task, chosen, settings, budget, Path(config["folder"]), backend)


def _episode(job: _Job, judge: Judge, store: Store, on_event: OnEvent, runner: Runner) -> Episode:
    """The episode as far as the store has it."""
    trajectory, writes = Trajectory(), []
    for event in store.events(job.run):
        trajectory.apply(event.kind, event.payload)
        writes.append(trajectory.unwritten)
    lost = bool(writes) and not (job.folder / "workspace").exists()
    workspace = Workspace(job.folder / "workspace", job.task, skill_text(job.settings, job.backend))
    for files in writes if lost else ():
        workspace.write(files)
    policy = load_policy(job.policy) if isinstance(job.policy, str) else job.policy
    seconds = job.budget.seconds
    reserve_s = 0.0 if seconds is None else min(RESERVE_S, seconds / 2)
    told = job.budget if seconds is None else replace(job.budget, seconds=seconds - reserve_s)
    messages = opening(job.task, job.settings, told, job.backend)
    return Episode(
        job.task, policy, judge, job.settings, workspace, runner, job.budget, store, job.run, messages, on_event,
        trajectory=trajectory, reserve_s=reserve_s,
    )  # fmt: skip


def _begin(episode: Episode, job: _Job, resumed: bool) -> None:
    """For a run that has not come far enough: is the task one that can be judged? Raises TaskError."""
    if episode.trajectory.messages:
        return
    if resumed:
        episode.emit("resume")
    else:
        episode.emit("start", task=job.task.name, policy=job.policy_name, folder=str(job.folder), pid=os.getpid())
    refused = episode.judge.check_task(job.task, job.settings)
    if refused is not None:
        episode.store.save_verdict(refused, job.task, run=job.run)
        raise TaskError(f"{job.task.name} cannot be judged: {refused.message or refused.status.value}")


def _confirm(episode: Episode) -> Judged | None:
    """The best solution with its careful verdict. Where the judge itself failed, with its quick one."""
    ranked = episode.trajectory.ranked()[:MAX_CONFIRMED]
    for judged in ranked:
        known = next((j for j in episode.trajectory.finals if j.solution == judged.solution), None)
        final = known or _judge_again(episode, judged)
        if final.verified:
            return final
        if final.verdict.status is Status.JUDGE_ERROR:
            return judged
    return None


def _judge_again(episode: Episode, judged: Judged) -> Judged:
    solution = episode.store.solution(judged.solution)
    assert solution is not None
    episode.emit("confirm", solution=judged.solution)
    began = time.monotonic()
    settings = replace(episode.settings, careful=True, measure=True)
    verdict = episode.judge.evaluate(episode.task, solution, settings, run=episode.run_id)
    data = verdict.model_dump(mode="json", by_alias=True)
    episode.emit("final", solution=judged.solution, verdict=data, seconds=time.monotonic() - began)
    return episode.trajectory.finals[-1]


def _write(job: _Job, store: Store, trajectory: Trajectory, winner: Judged | None, runner: Runner) -> Result:
    """Fills the result folder."""
    from cuda_agent.backends import export

    solution = store.solution(winner.solution) if winner else None
    result = Result(job.run, job.task, job.folder, solution, winner.verdict if winner else None, trajectory)
    shutil.rmtree(job.folder / "best", ignore_errors=True)
    if solution is not None and winner is not None:
        export(solution.files, job.folder / "best", runner=runner)
        job.task.write(job.folder / "task")
        (job.folder / "example.py").write_text(example(result), encoding="utf-8")
        (job.folder / "verdict.json").write_text(winner.verdict.to_json(indent=2) + "\n", encoding="utf-8")
    (job.folder / "report.md").write_text(report(result, job.policy_name), encoding="utf-8")
    return result


def _summary(result: Result) -> dict[str, Any]:
    verdict = result.verdict
    return {
        "headline": result.headline(),
        "faster": result.faster,
        "solution": result.solution.id if result.solution else None,
        "verdict": verdict.id if verdict else None,
        "folder": str(result.folder),
        "end": result.trajectory.end,
    }


def _runner(sandbox: Sandbox) -> Runner:
    return run_plain if sandbox == "off" else SandboxedRunner(require=sandbox == "require")


@contextmanager
def _locked(job: _Job) -> Iterator[None]:
    """Two processes must not go on with one run. The kernel gives the lock back whatever ends this process."""
    job.folder.mkdir(parents=True, exist_ok=True)
    with open(job.folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another process is working on run {job.run}; wait for it or end it") from None
        yield
