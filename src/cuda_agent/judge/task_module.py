"""Executing a task's source: the module, its inputs, and a description of both. Runs inside a sandboxed worker.

Whatever the task does wrong ends in one TaskError of one line that names the place in the task's own files.
`python -m cuda_agent.judge.task_module FOLDER...` describes tasks, one JSON line per folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from cuda_agent.errors import TaskError
from cuda_agent.judge.task_blame import blaming, short
from cuda_agent.judge.task_values import check_inputs, check_output, leaves, map_tensors

__all__ = [
    "TaskModule",
    "check_inputs",
    "check_output",
    "describe_on_meta",
    "init_arguments",
    "load",
    "make_inputs",
    "make_model",
]

ENTRY = "model.py"
META_LIMIT_S = 3


@dataclass(frozen=True)
class TaskModule:
    """A task whose source has been executed."""

    folder: Path
    model_class: type[nn.Module]
    get_inputs: Callable[[], Any]
    get_init_inputs: Callable[[], Any] | None
    redirect: bool
    """Its files name another device than the CPU: what they put there is put on the judged device."""


def load(folder: Path) -> TaskModule:
    """Executes `folder/model.py`. Raises TaskError."""
    folder = folder.resolve()
    redirect = any("cuda" in file.read_text("utf-8", "replace") for file in folder.rglob("*.py"))
    with blaming(folder, "the task cannot be loaded"), _devices("cpu", redirect):
        module = _execute(folder)
    model_class = getattr(module, "Model", None)
    if model_class is None:
        raise TaskError(f"{ENTRY} defines no Model")
    if not isinstance(model_class, type) or not issubclass(model_class, nn.Module):
        raise TaskError(f"{ENTRY}: Model is no class derived from torch.nn.Module but {short(model_class)}")
    get_inputs, get_init_inputs = getattr(module, "get_inputs", None), getattr(module, "get_init_inputs", None)
    if not callable(get_inputs):
        raise TaskError(f"{ENTRY} defines no function get_inputs()")
    if get_init_inputs is not None and not callable(get_init_inputs):
        raise TaskError(f"{ENTRY}: get_init_inputs is no function but {short(get_init_inputs)}")
    return TaskModule(folder, model_class, get_inputs, get_init_inputs, redirect)


def make_model(
    module: TaskModule, seed: int, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> nn.Module:
    """A new model, made on the CPU from `seed` (on the meta device for "meta"), then moved. Raises TaskError."""
    _seed(seed)
    args, kwargs = init_arguments(module)
    place = "meta" if torch.device(device).type == "meta" else "cpu"
    _seed(seed)
    with blaming(module.folder, "the constructor of Model failed"), _devices(place, module.redirect):
        return module.model_class(*args, **kwargs).to(device=device, dtype=dtype)


def make_inputs(
    module: TaskModule, seed: int, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> list[Any]:
    """New inputs made from `seed`, on `device` (on the CPU and then moved where the task can do no other), floating
    ones as `dtype`. Raises TaskError."""
    try:
        value = _inputs_made_on(str(device), module, seed)
    except TaskError:
        if torch.device(device).type != "cuda":
            raise
        value = _inputs_made_on("cpu", module, seed)
    with blaming(module.folder, "the inputs cannot be moved"):
        inputs: list[Any] = map_tensors(lambda tensor: _moved(tensor, device, dtype), check_inputs(value))
    return inputs


def _inputs_made_on(device: str, module: TaskModule, seed: int) -> Any:
    _seed(seed)
    with blaming(module.folder, "get_inputs() failed"), _devices(device, module.redirect):
        return module.get_inputs()


def _moved(tensor: torch.Tensor, device: str | torch.device, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.detach().to(device=device, dtype=dtype if tensor.is_floating_point() else None)


def init_arguments(module: TaskModule) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of the constructor: a list (KernelBench), a dict, or a list [args, kwargs] (KernelBook)."""
    if module.get_init_inputs is None:
        return [], {}
    with blaming(module.folder, "get_init_inputs() failed"), _devices("cpu", module.redirect):
        value = module.get_init_inputs()
    if value is None:
        return [], {}
    if isinstance(value, dict):
        return [], value
    if not isinstance(value, list | tuple):
        raise TaskError(f"get_init_inputs() returns {short(value)}; it should return a list of arguments or a dict")
    if len(value) == 2 and isinstance(value[0], list | tuple) and isinstance(value[1], dict):
        args, kwargs = list(value[0]), value[1]
        if not _binds(module.model_class, list(value), {}) and _binds(module.model_class, args, kwargs):
            return args, kwargs
    return list(value), {}


def _binds(model_class: type[nn.Module], args: list[Any], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(model_class).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _execute(folder: Path) -> ModuleType:
    """Runs model.py as the module `model`, its folder first on sys.path for what it imports."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("model", folder / ENTRY)
    if spec is None or spec.loader is None or not (folder / ENTRY).is_file():
        raise TaskError(f"no such task: {folder / ENTRY}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["model"] = module
    spec.loader.exec_module(module)
    return module


def _seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


class _OnDevice(TorchFunctionMode):
    """Puts on `device` what a task puts on a device of its own choice: many public ones say device="cuda"."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(self.device)
        if kwargs.get("device") is not None:
            kwargs["device"] = self.device
        if func is torch.Tensor.to:
            args = tuple(self.device if isinstance(arg, str | torch.device) else arg for arg in args)
        return func(*args, **kwargs)


@contextmanager
def _devices(device: str, redirect: bool) -> Iterator[None]:
    """New tensors lie on `device`; with `redirect`, also those for which the task names another."""
    with torch.device(device):
        if not redirect:
            yield
            return
        with _OnDevice(device):
            yield


def describe_on_meta(folder: Path) -> dict[str, Any]:
    """Shapes and sizes of a task without the memory for its values. Raises TaskError.

    Model, inputs and outputs are made on the meta device where they can (`"on": "meta"`), else model and inputs on
    the CPU and no outputs (`"on": "cpu"`); `"why"` says what the meta device could not do. Forward gets three
    seconds there: it unrolls long recurrences step by step.
    """
    module = load(folder)
    try:
        model, inputs = make_model(module, 0, "meta").eval(), make_inputs(module, 0, "meta")
    except TaskError as error:
        model, inputs = make_model(module, 0), make_inputs(module, 0)
        return _description("cpu", str(error), model, inputs, None)
    try:
        with blaming(module.folder, "forward failed"), _time_limit(META_LIMIT_S):
            output = _forward_on_meta(module, model, inputs)
    except TaskError as error:
        return _description("meta", str(error), model, inputs, None)
    return _description("meta", "", model, inputs, output)


def _forward_on_meta(module: TaskModule, model: nn.Module, inputs: list[Any]) -> Any:
    with _devices("meta", module.redirect), torch.no_grad():
        return check_output(model(*inputs))


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError inside after `seconds`. For the main thread."""

    def expire(signum: int, frame: object) -> None:
        raise TimeoutError(f"longer than {seconds} s on the meta device")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _description(on: str, why: str, model: nn.Module, inputs: list[Any], output: Any) -> dict[str, Any]:
    state = [*model.parameters(), *model.buffers()]
    made = None if output is None else leaves(output)
    return {
        "on": on,
        "forward": made is not None,
        "why": why,
        "inputs": [_leaf(leaf) for leaf in leaves(inputs)],
        "outputs": None if made is None else [_leaf(leaf) for leaf in made],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "bytes": {
            "inputs": _bytes(leaves(inputs)),
            "state": _bytes(state),
            "outputs": None if made is None else _bytes(made),
        },
    }


def _leaf(value: Any) -> Any:
    """A tensor as "float32[2, 3]", anything else as itself, as far as JSON can hold it."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _bytes(values: Sequence[Any]) -> int:
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))


def main() -> None:
    """Describes each folder in a forked process of its own, so that no task sees another's modules or patches."""
    parser = argparse.ArgumentParser(prog="task_module", description=main.__doc__)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    torch.relu(torch.empty(2, device="meta"))  # imports what most forwards on the meta device need, once
    for folder in parser.parse_args().folders:
        print(json.dumps({"folder": str(folder), **_in_child(folder)}), flush=True)


def _in_child(folder: Path) -> dict[str, Any]:
    """`describe_on_meta(folder)`, or `{"error": line}`; what the task prints goes to stderr."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(2, 1)
        try:
            result = describe_on_meta(folder)
        except TaskError as error:
            result = {"error": str(error)}
        with os.fdopen(writer, "w") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not text:
        return {"error": f"the task ended its process with {'signal' if status < 0 else 'status'} {abs(status)}"}
    answer: dict[str, Any] = json.loads(text)
    return answer


if __name__ == "__main__":
    main()
