"""Exporting a live module without noise, and finding which numbers in its graph are arguments of forward."""

from __future__ import annotations

import contextlib
import io
import logging
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import Node

from cuda_agent.errors import TaskError
from cuda_agent.live.example_call import ExampleCall, Leaf
from cuda_agent.live.forward import Arguments, Expression

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(contextlib.__file__).parent))


def export(module: nn.Module, call: ExampleCall) -> ExportedProgram:
    """The ATen graph of the module for static shapes. Raises TaskError with the reason in one line."""
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(module, call.args, call.kwargs, strict=False)
    except Exception as error:  # whatever the module does while it is traced
        raise TaskError(f"the module cannot be exported{place(error)}: {one_line(error)}") from error


def argument_numbers(
    module: nn.Module, call: ExampleCall, program: ExportedProgram
) -> tuple[dict[str, Arguments], ExampleCall | None]:
    """Arguments of nodes in which a number is a Python argument of forward, by the name of the node.

    Exporting fixes such numbers, so the module is exported again with others, which are returned too: where the graph
    differs in nothing but these numbers they are put back as names. Otherwise none are, and the numbers stay fixed.
    """
    for kinds in ((int, float), (float,)):
        other = _with_other_numbers(call, kinds)
        if other is None:
            continue
        try:
            second = export(module, other)
            pairs = list(zip(call.leaves(), other.leaves(), strict=True))
            found = _merged(list(program.graph.nodes), list(second.graph.nodes), pairs)
        except (TaskError, _Differs):
            continue
        return found, other
    return {}, None


class _Differs(Exception):
    """Two graphs differ in more than the numbers given to forward."""


def _with_other_numbers(call: ExampleCall, kinds: tuple[type, ...]) -> ExampleCall | None:
    numbers = [leaf for leaf in call.leaves() if type(leaf.value) in kinds]
    if not numbers:
        return None
    position = iter(range(len(numbers)))

    def other(value: Any) -> Any:
        if type(value) not in kinds:
            return value
        step = next(position) + 1
        return value + step if isinstance(value, int) else value * 1.37 + 0.11 * step

    return call.changed(other)


def _merged(first: Sequence[Node], second: Sequence[Node], pairs: list[tuple[Leaf, Leaf]]) -> dict[str, Arguments]:
    if [(node.op, str(node.target)) for node in first] != [(node.op, str(node.target)) for node in second]:
        raise _Differs
    found: dict[str, Arguments] = {}
    for a, b in zip(first, second, strict=True):
        args, kwargs = _merge((list(a.args), dict(a.kwargs)), (list(b.args), dict(b.kwargs)), pairs)
        if repr((args, kwargs)) != repr((list(a.args), dict(a.kwargs))):
            found[a.name] = (args, kwargs)
    return found


def _merge(a: Any, b: Any, pairs: list[tuple[Leaf, Leaf]]) -> Any:
    if isinstance(a, Node) and isinstance(b, Node):
        return a
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [_merge(x, y, pairs) for x, y in zip(a, b, strict=True)]
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return {key: _merge(a[key], b[key], pairs) for key in a}
    if type(a) is type(b) and (a == b or (a != a and b != b)):
        return a
    for before, after in pairs:
        if before.value is not after.value and (a, b) == (before.value, after.value):
            return Expression(before.place)
    raise _Differs


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings, log lines and graphs that exporting prints."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        out = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def place(error: BaseException) -> str:
    """` at FILE:LINE` for the innermost place outside of torch and the standard library, or nothing."""
    own = str(Path(__file__).parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((*_LIBRARIES, own, "<"))
    ]
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no message'}"
