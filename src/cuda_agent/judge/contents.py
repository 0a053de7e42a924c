"""New contents for inputs and parameters: blends for timed calls, one-ulp moves, probes, jitter; from secret seeds.

Nothing here may change what is legal for a task: integers and booleans keep their values, positive parameters stay
positive, and probes count only where the reference still gives finite, varying outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuda_agent.judge import arrays
from cuda_agent.judge.values import Bytes, Spec, Value

Generator = np.random.Generator

TOO_SMALL_TO_BLEND = 32
"""Elements of a tensor that is taken whole from one of the two."""
MANTISSA = {"float32": 23, "float64": 52, "float16": 10, "bfloat16": 7}


def blended(a: Value, b: Value, seed: int, out: Sequence[Bytes] | None = None) -> Value:
    """Inputs made of runs of elements of `a` and of `b`; small and integer tensors are one of the two, whole."""
    data: list[Bytes] = []
    for i, (spec, x, y) in enumerate(zip(a.specs, a.data, b.data, strict=True)):
        key = (seed * 1000003 + i * 7919 + 1) % (1 << 63)
        target = arrays.empty_like(x) if out is None else out[i]
        if spec.floating and spec.numel > TOO_SMALL_TO_BLEND:
            arrays.blend(target, x, y, spec.itemsize, key)
        else:
            target[:] = x if (key >> 7) & 1 else y
        data.append(target)
    # numbers among the inputs are the first one's: they are constants of the task in practice
    return a.replaced(data)


class Batch(list[Value]):
    """Contents of many calls whose tensors lie together: `columns` has for each tensor an array of calls x bytes."""

    def __init__(self, pool: Sequence[Value], calls: int) -> None:
        import torch

        self._like, self._pool = (
            pool[0],
            [torch.stack(tensors) for tensors in zip(*(v.data for v in pool), strict=True)],
        )
        self.columns = [tensors.new_empty(calls, tensors.shape[1]) for tensors in self._pool]
        super().__init__(self._like.replaced(rows) for rows in zip(*self.columns, strict=True))

    def renew(self, generator: Generator) -> None:
        """Blends that no call has had; see `blended`."""
        for spec, column, pool in zip(self._like.specs, self.columns, self._pool, strict=True):
            if spec.floating and spec.numel > TOO_SMALL_TO_BLEND:
                arrays.blend_rows(column, pool, spec.itemsize, generator)
            else:
                column.copy_(pool[arrays.index(generator.integers(len(pool), size=len(column)), pool)])


def moved_by_ulp(value: Value, generator: Generator) -> Value:
    """Each finite, non-zero floating element moved by -1, 0 or +1 unit in its last place."""
    return value.replaced([_moved(s, d, generator) for s, d in zip(value.specs, value.data, strict=True)])


def _moved(spec: Spec, data: Bytes, generator: Generator) -> Bytes:
    if not spec.floating or not spec.numel:
        return data
    size = spec.itemsize // (2 if spec.dtype.startswith("complex") else 1)
    bits = arrays.integers(data, size)
    dtype = {8: "float64", 4: "float32"}.get(size, spec.dtype)
    mantissa = MANTISSA[dtype]
    full = (1 << (8 * size - 1 - mantissa)) - 1
    moved = arrays.empty_like(bits)
    for part in arrays.parts(bits):
        exponent = (bits[part] >> mantissa) & full
        step = arrays.steps(bits[part], generator)
        step[(exponent == 0) | (exponent >= full - 1)] = 0
        moved[part] = arrays.cast(bits[part] + step, bits)
    return arrays.raw(moved)


def mapped(value: Value, function: Callable[[Any], Any]) -> Value:
    """`function` applied to the elements of every real floating tensor."""
    data = []
    for spec, raw in zip(value.specs, value.data, strict=True):
        if spec.dtype in MANTISSA and spec.numel:
            with np.errstate(over="ignore", invalid="ignore"):
                raw = from_float(spec, function(to_float(spec, raw)))
        data.append(raw)
    return value.replaced(data)


def to_float(spec: Spec, data: Bytes) -> Any:
    """The elements in memory order (gaps included), as float32, or float64 for a float64 tensor; complex ones as
    pairs."""
    if not arrays.on_host(data):
        torch = arrays.namespace(data)
        if spec.dtype in ("bfloat16", "float16"):
            return data.view(getattr(torch, spec.dtype)).float()
        return data.view(torch.float32 if spec.dtype in ("float32", "complex64") else torch.float64)
    if spec.dtype == "bfloat16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if spec.dtype == "float16":
        return data.view(np.float16).astype(np.float32)
    return data.view(np.float32 if spec.dtype in ("float32", "complex64") else np.float64)


def from_float(spec: Spec, elements: Any) -> Bytes:
    """The inverse of `to_float`, rounded to the tensor's dtype."""
    if not arrays.on_host(elements):
        torch = arrays.namespace(elements)
        dtype = {"complex64": torch.float32, "complex128": torch.float64}.get(spec.dtype) or getattr(torch, spec.dtype)
        return elements.to(dtype).contiguous().view(torch.uint8)
    if spec.dtype == "bfloat16":
        bits = np.ascontiguousarray(elements, np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        rounded[np.isnan(elements)] = 0x7FC0
        return rounded.astype(np.uint16).view(np.uint8)
    kind = {"float16": np.float16, "float32": np.float32, "complex64": np.float32}.get(spec.dtype, np.float64)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(elements.astype(kind)).view(np.uint8)


TIES = ("zero", "repeated")
"""Probes that make elements equal: which of them an index names is often undefined."""


def nudged(value: Value, generator: Generator) -> Value:
    """Every floating element moved by about a millionth, so that equal elements differ."""
    return mapped(value, lambda x: x + 1e-6 * (1 + abs(x)) * arrays.cast(arrays.normal(x, generator), x))


def _repeated(x: Any) -> Any:
    first = x[: max(1, min(7, len(x)))]
    return arrays.namespace(x).tile(first, (-(-len(x) // len(first)),))[: len(x)]


PROBES: dict[str, Callable[[Any], Any]] = {
    "negated": lambda x: -x,
    "shifted": lambda x: x + 1.5,
    "shifted far": lambda x: x + 100 * max(arrays.std(x), 1e-3),
    "scaled by 100": lambda x: x * 100.0,
    "zero": lambda x: arrays.namespace(x).zeros_like(x),
    "repeated": _repeated,
}


def swapped(value: Value, generator: Generator) -> Value:
    """A few pairs of elements of each floating tensor exchanged: sums, norms and most fingerprints stay the same."""
    data = []
    for spec, raw in zip(value.specs, value.data, strict=True):
        if spec.floating and spec.numel > 1:
            elements = arrays.elements(arrays.copied(raw), spec.itemsize)
            count = len(elements)
            pairs = max(1, min(4096, count // 64))
            chosen = generator.choice(count, 2 * pairs, replace=False) if count < 1 << 16 else None
            if chosen is None:
                chosen = np.unique(generator.integers(0, count, 2 * pairs))
                chosen = generator.permutation(chosen[: len(chosen) // 2 * 2])
            half = len(chosen) // 2
            left, right = (arrays.index(part, elements) for part in (chosen[:half], chosen[half:]))
            elements[left], elements[right] = elements[right], elements[left]
            raw = arrays.raw(elements)
        data.append(raw)
    return value.replaced(data)


def jittered_state(state: Value, rows: Sequence[dict[str, Any]], generator: Generator) -> Value:
    """New parameters and normalisation statistics; other buffers (masks, tables) keep their values."""
    data = []
    for spec, raw, row in zip(state.specs, state.data, rows, strict=True):
        if row["tied"] is not None or not _may_change(spec, row):
            data.append(raw)
            continue
        data.append(from_float(spec, _jittered(to_float(spec, raw), row["name"], generator)))
    return retied(state, rows, data)


def single_elements(state: Value, rows: Sequence[dict[str, Any]], generator: Generator) -> Value:
    """The state with one to three elements of each parameter changed: fingerprints of it do not notice."""
    data = []
    for spec, raw, row in zip(state.specs, state.data, rows, strict=True):
        if row["tied"] is None and _may_change(spec, row):
            elements = arrays.copied(to_float(spec, raw))
            chosen = arrays.index(generator.integers(0, len(elements), min(3, len(elements))), elements)
            step = 2.0 * float(abs(elements).max()) + 0.5
            elements[chosen] = abs(elements[chosen]) + step if elements.min() >= 0 else elements[chosen] - step
            raw = from_float(spec, elements)
        data.append(raw)
    return retied(state, rows, data)


def retied(state: Value, rows: Sequence[dict[str, Any]], data: list[Bytes]) -> Value:
    """Tensors with two names get the same content under both."""
    place = {row["name"]: i for i, row in enumerate(rows)}
    for i, row in enumerate(rows):
        if row["tied"] is not None:
            data[i] = data[place[row["tied"]]]
    return state.replaced(data)


def _may_change(spec: Spec, row: dict[str, Any]) -> bool:
    statistics = row["name"].rpartition(".")[2] in ("running_mean", "running_var")
    return spec.floating and spec.numel > 0 and (row["parameter"] or statistics)


def _jittered(x: Any, name: str, generator: Generator) -> Any:
    """Moved by about a third of its own spread; constants (ones, zeros) get a spread of their own."""
    xp = arrays.namespace(x)
    finite = x[xp.isfinite(x)]
    spread = arrays.std(finite)
    level = float(abs(finite).mean()) if len(finite) else 0.0
    noise = arrays.normal(x, generator)
    if name.rpartition(".")[2] == "running_var" or (len(finite) and finite.min() > 0):
        moved = x * xp.exp(0.3 * noise)
    elif spread < 1e-3 * (level + 1e-6) or spread == 0.0:
        moved = x + 0.3 * max(level, 0.5) * noise
    else:
        moved = x + spread / 3 * noise
    return arrays.cast(moved, x)
