"""A task from a live module and example inputs: its exported graph, written as source that a person can read.

The source is the module in evaluation mode with the shapes of the examples. Its `Model` has the module's parameters
and buffers under their own names, so that a solution can load the module's state dict; `get_inputs` draws tensors like
the examples. The source is executed once, with the module's state and inputs, and has to give the module's outputs.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import nn

from cuda_agent.errors import TaskError
from cuda_agent.live.example_call import ExampleCall, example_call, same_outputs
from cuda_agent.live.export import argument_numbers, export, one_line, place
from cuda_agent.live.source import CONSTANTS, files_of


def module_files(module: nn.Module, inputs: Any, name: str) -> dict[str, str]:
    """The files of the task. `inputs` are forward's arguments: a list, a mapping by name, or one tensor.

    The module is left as it was: its mode, its buffers and its inputs. Raises TaskError with one line.
    """
    if not isinstance(module, nn.Module):
        raise TaskError(f"{name} is no torch.nn.Module but a {type(module).__name__}")
    call = example_call(module, inputs)
    with _evaluating(module):
        outputs = _run(module, call)
        program = export(module, call)
        numbers, other = argument_numbers(module, call, program)
        expected = [(call, outputs)] + ([(other, _run(module, other))] if other else [])
        problem = ""
        for plain in (False, True):
            files = files_of(module, program, call, numbers, name, plain=plain)
            problem = _problem(files, module, expected)
            if not problem:
                return files
        if not same_outputs(outputs, _run(module, call)):
            raise TaskError(f"{name} gives other outputs for the same inputs: it is random, or counts its calls")
    raise TaskError(f"{name} cannot be written as source: {problem}; write the task as a file instead")


def _run(module: nn.Module, call: ExampleCall) -> Any:
    """Outputs, inputs and buffers after a call on copies of the inputs; the buffers are restored."""
    used = call.copied()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        with torch.no_grad():
            output = module(*used.args, **used.kwargs)
    except Exception as error:
        raise TaskError(f"the module fails on its example inputs{place(error)}: {one_line(error)}") from error
    after = {name: buffer.clone() for name, buffer in module.named_buffers() if name in before}
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if name in before:
                buffer.copy_(before[name])
    return output, used.args, used.kwargs, after


def _problem(files: Mapping[str, str], module: nn.Module, expected: list[tuple[ExampleCall, Any]]) -> str:
    """What is wrong with the source when it is executed with the module's state; "" where nothing is."""
    try:
        model = _executed(files)
        missing = model.load_state_dict(_tensors(module.state_dict()), strict=True)
        assert not missing.missing_keys
        model.to(_device(expected[0][0])).eval()
        for call, (output, args, kwargs, buffers) in expected:
            used = ExampleCall((*call.args, *call.kwargs.values()), {}, call.names).copied()
            with torch.no_grad():
                made = model(*used.args)
            now = {name: buffer for name, buffer in model.named_buffers() if name in buffers}
            if not same_outputs(output, made):
                return "its outputs differ from the module's"
            if not same_outputs([*args, *kwargs.values()], list(used.args)) or not same_outputs(buffers, now):
                return "it changes its inputs or buffers otherwise than the module does"
    except Exception as error:  # a call whose readable form torch does not take
        return one_line(error)
    return ""


def _executed(files: Mapping[str, str]) -> nn.Module:
    """A `Model` from the generated source."""
    namespace: dict[str, Any] = {"__name__": "model"}
    constants = ModuleType(CONSTANTS)
    exec(compile(files.get(f"{CONSTANTS}.py", ""), f"{CONSTANTS}.py", "exec"), constants.__dict__)
    before = sys.modules.get(CONSTANTS)
    sys.modules[CONSTANTS] = constants
    try:
        exec(compile(files["model.py"], "model.py", "exec"), namespace)
        model: nn.Module = namespace["Model"]()
    finally:
        sys.modules.pop(CONSTANTS)
        if before is not None:
            sys.modules[CONSTANTS] = before
    return model


def _tensors(state: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def _device(call: ExampleCall) -> torch.device:
    tensors = [leaf.value for leaf in call.leaves() if isinstance(leaf.value, torch.Tensor)]
    return tensors[0].device if tensors else torch.device("cpu")


@contextlib.contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
