"""What `optimize` hands back, and the module that a caller loads from it."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cuda_agent.agent.trajectory import Trajectory
from cuda_agent.errors import SolutionError, UsageError
from cuda_agent.solution import ENTRY, Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Interval, Verdict

if TYPE_CHECKING:
    from torch import nn

_PREFIX = "cuda_agent_solution_"
BASELINES = {"eager": "eager", "compile": "torch.compile"}


@dataclass(frozen=True, repr=False)
class Result:
    """`verdict` is the careful one of `solution`, the best that was found; both are None where nothing was correct."""

    run: str
    task: Task
    folder: Path
    """Holds best/, verdict.json, report.md and the workspace."""
    solution: Solution | None
    verdict: Verdict | None
    trajectory: Trajectory

    @property
    def faster_than(self) -> list[str]:
        """The baselines that it beats with the whole interval."""
        return [label for name, label in BASELINES.items() if (r := self._ratio(name)) is not None and r.low > 1.0]

    @property
    def faster(self) -> bool:
        """It beats eager, and torch.compile where that was timed."""
        timed = [label for name, label in BASELINES.items() if self._ratio(name) is not None]
        return "eager" in timed and self.faster_than == timed

    def __repr__(self) -> str:
        return f"<run {self.run} on {self.task.name}: {self.headline()}; {self.folder}>"

    def headline(self) -> str:
        if self.verdict is None:
            return "nothing correct was found"
        if self.faster:
            return self.verdict.headline()
        if not self.faster_than:
            return f"nothing faster was found; the best correct version: {self.verdict.headline()}"
        others = " or ".join(label for label in BASELINES.values() if label not in self.faster_than)
        beaten = " and ".join(self.faster_than)
        return f"faster than {beaten}, not shown to be faster than {others}: {self.verdict.headline()}"

    def load(self, module: nn.Module | None = None) -> nn.Module:
        """A `ModelNew` in this process, ready to call; with the weights, dtype and mode of `module` when it is given.

        This runs the solution's and the task's code here, unprotected. Raises SolutionError, UsageError.
        """
        if self.solution is None:
            raise UsageError(f"run {self.run} found nothing correct, so there is nothing to load; see {self.folder}")
        if not (self.folder / "best" / ENTRY).is_file():
            raise SolutionError(f"there is no {self.folder / 'best' / ENTRY}; was the result folder moved?")
        made = _construct(self.folder / "best", self.task)
        if module is not None:
            _take_over(made, module)
        if prepare := getattr(made, "prepare", None):
            prepare()
        return made

    def _ratio(self, name: str) -> Interval | None:
        ratio: Interval | None = None if self.verdict is None else getattr(self.verdict.speedup, name)
        return ratio


def _construct(folder: Path, task: Task) -> nn.Module:
    from cuda_agent.judge.task_module import init_arguments, load

    with tempfile.TemporaryDirectory(prefix="cuda-agent-") as scratch:
        task.write(Path(scratch))
        with _imports_from(Path(scratch).resolve()):
            args, kwargs = init_arguments(load(Path(scratch)))
            # made from the task's own classes, perhaps, so it stays inside
            with _imports_from(folder):
                module: nn.Module = _import(folder / ENTRY).ModelNew(*args, **kwargs)
    return module


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    """`folder` first on sys.path. Its modules are not mixed up with others of the same names, before or afterwards."""
    names = {path.stem for path in folder.iterdir()} - {"cuda_agent"}
    path = list(sys.path)
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in names}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path[:] = path
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(hidden)


def _import(file: Path) -> ModuleType:
    name = _PREFIX + file.parent.parent.name.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # classes look up their module by name
    spec.loader.exec_module(module)
    return module


def _take_over(made: nn.Module, module: nn.Module) -> None:
    tensors: list[Any] = [*module.parameters(), *module.buffers()]
    dtypes = {t.dtype for t in tensors if t.is_floating_point()}
    if len(dtypes) == 1:
        made.to(dtype=dtypes.pop())
    try:
        made.load_state_dict(module.state_dict())
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise SolutionError(
            f"the weights of the module do not fit ModelNew, whose parameters differ: {reason}"
        ) from None
    made.train(module.training)
