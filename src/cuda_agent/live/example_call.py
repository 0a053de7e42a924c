"""The example inputs as one call of forward: which argument is which, and how `get_inputs()` makes others like them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from cuda_agent.errors import TaskError
from cuda_agent.live.examples import like_inputs, with_layout
from cuda_agent.live.text import literal

_NUMBERS = (bool, int, float, complex, str, type(None))
_CHUNK = 1 << 22
_RESERVED = {"F", "nn", "torch", "self"}


@dataclass(frozen=True)
class Leaf:
    """One tensor or number of the inputs: `place` is how forward reaches it, as in `x` or `pair[1]`."""

    place: str
    value: Any


@dataclass(frozen=True)
class ExampleCall:
    """`module(*args, **kwargs)`; `names` are those of `args`, then those of `kwargs`."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...]

    @property
    def values(self) -> list[Any]:
        return [*self.args, *self.kwargs.values()]

    def leaves(self) -> list[Leaf]:
        """In the order in which torch.export lists its inputs."""
        pairs = zip(self.names, self.values, strict=True)
        return [leaf for name, value in pairs for leaf in _leaves(name, value)]

    def changed(self, function: Callable[[Any], Any]) -> ExampleCall:
        """The call with `function` applied to each leaf."""
        args, kwargs = pytree.tree_map(function, (self.args, self.kwargs))
        return ExampleCall(args, kwargs, self.names)

    def copied(self) -> ExampleCall:
        """The call with tensors of its own; what was one tensor stays one."""
        copies: dict[int, torch.Tensor] = {}
        return self.changed(lambda leaf: _copy(leaf, copies))


def example_call(module: nn.Module, inputs: Any) -> ExampleCall:
    """`inputs` are a sequence (positional), a mapping (by name) or one tensor. Raises TaskError."""
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, Mapping | list | tuple):
        raise TaskError(f"the example inputs are a {type(inputs).__name__}; give a list of forward's arguments")
    if not inputs:
        raise TaskError("there are no example inputs; give a list of forward's arguments")
    named, given = (inputs, ()) if isinstance(inputs, Mapping) else ({}, inputs)
    try:
        bound = inspect.signature(module.forward).bind(*given, **named)
    except TypeError as error:
        raise TaskError(f"the example inputs do not fit {type(module).__name__}.forward: {error}") from None
    names = [*_positional_names(bound), *bound.kwargs]
    names = [f"{name}_" if name in _RESERVED else name for name in names]
    for name, value in zip(names, [*bound.args, *bound.kwargs.values()], strict=True):
        _check(name, value)
    return ExampleCall(bound.args, bound.kwargs, tuple(names))


def input_lines(call: ExampleCall) -> list[str]:
    """The body of `get_inputs()`."""
    lines: list[str] = []
    made: dict[int, str] = {}
    values = [_made(name, value, lines, made) for name, value in zip(call.names, call.values, strict=True)]
    return [*lines, f"return [{', '.join(values)}]"]


def _positional_names(bound: inspect.BoundArguments) -> list[str]:
    names: list[str] = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{name}_{index}" for index in range(len(bound.arguments.get(name, ())))]
        else:
            names.append(name)
    return names[: len(bound.args)]


def _check(where: str, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            raise TaskError(f"the example input {where} is no dense tensor")
    elif type(value) in (list, tuple):
        for index, item in enumerate(value):
            _check(f"{where}[{index}]", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(f"{where}[{key!r}]", item)
    elif type(value) not in _NUMBERS:
        kind = type(value).__name__
        raise TaskError(f"the example input {where} is a {kind}; allowed are tensors, numbers, lists, tuples and dicts")


def _leaves(place: str, value: Any) -> list[Leaf]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(f"{place}[{literal(key)}]", item)]
    if isinstance(value, list | tuple):
        return [leaf for index, item in enumerate(value) for leaf in _leaves(f"{place}[{index}]", item)]
    return [Leaf(place, value)]


def _made(name: str, value: Any, lines: list[str], made: dict[int, str]) -> str:
    """The expression of one argument; its tensors become variables, one for each tensor."""
    if isinstance(value, torch.Tensor):
        if id(value) not in made:
            made[id(value)] = name
            lines.append(f"{name} = {with_layout(like_inputs, value.detach().cpu())}")
        return made[id(value)]
    if isinstance(value, dict):
        items = [f"{literal(key)}: {_made(f'{name}_{key}', item, lines, made)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        texts = [_made(f"{name}_{index}", item, lines, made) for index, item in enumerate(value)]
        if isinstance(value, list):
            return f"[{', '.join(texts)}]"
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
    return literal(value)


def _copy(leaf: Any, copies: dict[int, torch.Tensor]) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if id(leaf) not in copies:
        copies[id(leaf)] = leaf.detach().clone()
    return copies[id(leaf)]


def same_outputs(first: Any, second: Any) -> bool:
    """Both have the same leaves, up to rounding."""
    one, two = pytree.tree_leaves(first), pytree.tree_leaves(second)
    return len(one) == len(two) and all(_close(a, b) for a, b in zip(one, two, strict=True))


def _close(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b) and (a == b or torch.allclose(torch.tensor(a), torch.tensor(b), equal_nan=True))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point() and not a.is_complex():
        return torch.equal(a, b)
    share = 1e-4 if a.dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128) else 1e-2
    parts = list(zip(torch.split(a.reshape(-1), _CHUNK), torch.split(b.reshape(-1), _CHUNK), strict=True))
    squares = sum(float(torch.nan_to_num(part.abs().double(), 0.0, 0.0).square().sum()) for part, _ in parts)
    bound = share * math.sqrt(squares / max(1, a.numel()))
    return all(torch.allclose(x, y, rtol=share, atol=bound, equal_nan=True) for x, y in parts)
