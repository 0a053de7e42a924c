"""What `optimize` may be pointed at: a task, a task's file, a live module with inputs, or `module:attribute`."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cuda_agent.errors import TaskError
from cuda_agent.task import Task

if TYPE_CHECKING:
    from torch import nn


def as_task(target: Task | str | pathlib.Path | nn.Module, inputs: Any = None) -> Task:
    """The task that `target` names. Raises TaskError."""
    if isinstance(target, Task):
        return target
    if isinstance(target, pathlib.Path) or (isinstance(target, str) and not _is_attribute(target)):
        return Task.from_file(target)
    if isinstance(target, str):
        name = target.partition(":")[2]
        module, found = _attribute(target, inputs)
        return _live(module, found, name)
    return _live(target, inputs, type(target).__name__)


def _live(module: nn.Module, inputs: Any, name: str) -> Task:
    from cuda_agent.live import task_from_module

    if inputs is None:
        raise TaskError(f"{name}: a live module needs example inputs; give them as the second argument")
    return task_from_module(module, inputs, name=name)


def _is_attribute(target: str) -> bool:
    """`package.module:attribute`, and no file of that name."""
    module, colon, attribute = target.partition(":")
    named = all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")])
    return bool(colon) and named and not pathlib.Path(target).exists()


def _attribute(target: str, inputs: Any) -> tuple[nn.Module, Any]:
    """The live module, and its inputs, which may come from `get_inputs()` beside it.

    The attribute may be a module, a class of modules (constructed with `get_init_inputs()` where that is there), or a
    function without arguments that returns a module or (module, inputs). It is imported here, as `python -m` would.
    """
    name, _, attribute = target.partition(":")
    home = _import(name, target)
    found = home
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = sorted(n for n, value in vars(home).items() if _is_usable(value, home))
            raise TaskError(f"{target}: {name} has no {attribute}; it has {', '.join(names) or 'no module in it'}")
        found = getattr(found, part)
    return _called(target, found, home, inputs)


def _import(name: str, target: str) -> ModuleType:
    here = str(pathlib.Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:
        place = _place(error)
        raise TaskError(f"{target}: importing {name} fails: {type(error).__name__}: {error}{place}") from error


def _place(error: BaseException) -> str:
    """Where in the user's own files it happened."""
    traceback, place = error.__traceback__, ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<") and file != __file__:
            place = f" ({file}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place


def _called(target: str, found: Any, home: ModuleType, inputs: Any) -> tuple[nn.Module, Any]:
    from torch import nn

    try:
        if inspect.isclass(found) and issubclass(found, nn.Module):
            arguments = home.get_init_inputs() if hasattr(home, "get_init_inputs") else []
            found = found(**arguments) if isinstance(arguments, dict) else found(*arguments)
        elif not isinstance(found, nn.Module) and callable(found):
            found = found()
        if isinstance(found, tuple) and len(found) == 2 and inputs is None:
            found, inputs = found
        if inputs is None and hasattr(home, "get_inputs"):
            inputs = home.get_inputs()
    except Exception as error:
        raise TaskError(f"{target}: {type(error).__name__}: {error}{_place(error)}") from error
    if not isinstance(found, nn.Module):
        raise TaskError(
            f"{target} gives a {type(found).__name__}; it must be a torch.nn.Module, a class of them, or a function "
            "that returns one or (module, inputs)"
        )
    if inputs is None:
        raise TaskError(f"{target}: no example inputs: define get_inputs() beside it, or return (module, inputs)")
    return found, inputs


def _is_usable(value: Any, home: ModuleType) -> bool:
    return inspect.isclass(value) and value.__module__ == home.__name__
