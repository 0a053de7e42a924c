"""A PyTorch module in, a verified faster kernel out.

    import cuda_agent

    result = cuda_agent.optimize(module, (x, y))          # a live module, a Task, or a task's file
    verdict = cuda_agent.evaluate("task.py", "answer/")   # is it right, and how fast is it

Importing this package loads neither torch nor the rest of the package; names are looked up when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_agent.api import evaluate, optimize, profile
    from cuda_agent.errors import BuildError, CudaAgentError, MachineError, SolutionError, TaskError, UsageError
    from cuda_agent.solution import Solution
    from cuda_agent.store import Store
    from cuda_agent.task import Task
    from cuda_agent.verdict import Interval, Status, Verdict

__version__ = "0.1.0"

_HOMES = {
    "evaluate": "api",
    "optimize": "api",
    "profile": "api",
    "BuildError": "errors",
    "CudaAgentError": "errors",
    "MachineError": "errors",
    "SolutionError": "errors",
    "TaskError": "errors",
    "UsageError": "errors",
    "Solution": "solution",
    "Store": "store",
    "Task": "task",
    "Interval": "verdict",
    "Status": "verdict",
    "Verdict": "verdict",
}

__all__ = [
    "BuildError",
    "CudaAgentError",
    "Interval",
    "MachineError",
    "Solution",
    "SolutionError",
    "Status",
    "Store",
    "Task",
    "TaskError",
    "UsageError",
    "Verdict",
    "evaluate",
    "optimize",
    "profile",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
