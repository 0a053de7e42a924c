"""What may go into a task and what may come out of it.

Inputs are lists or tuples of tensors, Python numbers, booleans, strings and None, also nested in lists, tuples and
dicts. Outputs are the same without strings. A named tuple (torch's `return_types` too) counts as a tuple and a
mapping such as `ModelOutput` as a dict; a plain dataclass is refused, for nothing says which of its fields count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from cuda_agent.errors import TaskError

_INPUT_LEAVES = (bool, int, float, complex, str, type(None))
_OUTPUT_LEAVES = (bool, int, float, complex, type(None))


def check_inputs(value: Any) -> list[Any]:
    """What `get_inputs()` returned, as a list. Raises TaskError naming the place of what cannot be an input."""
    if value is None:
        raise TaskError("get_inputs() returns nothing; it should return a list of the arguments of forward")
    if isinstance(value, torch.Tensor):
        raise TaskError("get_inputs() returns a tensor; it should return a list, as in [x]")
    if not isinstance(value, list | tuple):
        raise TaskError(f"get_inputs() returns a {_type(value)}; it should return a list of the arguments of forward")
    if not value:
        raise TaskError("get_inputs() returns an empty list; a task without inputs cannot be judged")
    return [_plain(item, f"input {index}", _INPUT_LEAVES) for index, item in enumerate(value)]


def check_output(value: Any) -> Any:
    """What `forward` returned, with plain tuples and dicts. Raises TaskError naming what cannot be compared."""
    plain = _plain(value, "the output", _OUTPUT_LEAVES)
    if all(leaf is None for leaf in leaves(plain)):
        what = "nothing" if value is None else f"{value!r}"
        raise TaskError(f"forward returns {what}; it should return tensors or numbers")
    return plain


def leaves(value: Any) -> list[Any]:
    """Everything in `value` that is no list, tuple or dict, in order."""
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def map_tensors(function: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """`value` with `function` applied to each of its tensors; lists, tuples and dicts keep their structure."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [map_tensors(function, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _plain(value: Any, where: str, allowed: tuple[type, ...]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            kind = "quantised" if value.is_quantized else str(value.layout).removeprefix("torch.")
            raise TaskError(f"{where} is a {kind} tensor; only dense ones can be judged")
        return value
    if type(value) in allowed:
        return value
    if isinstance(value, list | tuple):
        items = [_plain(item, f"{where}[{index}]", allowed) for index, item in enumerate(value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Mapping):
        return {key: _plain(item, f"{where}[{key!r}]", allowed) for key, item in value.items()}
    raise TaskError(f"{where} is a {_type(value)}; {_hint(value, allowed)}")


def _hint(value: Any, allowed: tuple[type, ...]) -> str:
    if dataclasses.is_dataclass(value):
        return "use a tuple or a dict of its fields"
    if type(value).__module__ == "numpy":
        return "use torch.from_numpy, or .item() for a number"
    strings = ", strings" if str in allowed else ""
    return f"allowed are tensors, numbers{strings}, None, and tuples, lists or dicts of them"


def _type(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
