"""The product from Python: what the commands `optimize` and `evaluate` do."""

from __future__ import annotations

import pathlib
from typing import Literal

from cuda_agent.judge import Judge, Settings
from cuda_agent.judge.settings import Mode, Precision, Protocol, Rules
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Verdict

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
    sandbox: Literal["auto", "require", "off"] = "auto",
    store: Store | Path | None = None,
) -> Verdict:
    """The verdict on one solution, which is in the store when this returns.

    A task or a solution may be given as a path. For many solutions of one task use `cuda_agent.judge.Judge`, which
    shares the inputs and the baselines between them. Raises UsageError for what cannot be read, MachineError for a
    machine that lacks something; what a task or a solution does wrong is a verdict.
    """
    task = task if isinstance(task, Task) else Task.from_file(task)
    solution = solution if isinstance(solution, Solution) else Solution.from_path(solution)
    settings = Settings(rules=rules, precision=precision, protocol=protocol, mode=mode, careful=careful, device=device)
    opened = store if isinstance(store, Store) else Store(store)
    try:
        with Judge(store=opened, sandbox=sandbox) as judge:
            verdict = judge.evaluate(task, solution, settings)
        return opened.save_verdict(verdict, task, solution)
    finally:
        if opened is not store:
            opened.close()
