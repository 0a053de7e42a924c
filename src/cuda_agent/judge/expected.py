"""What a right answer may look like: bounds around a double-precision oracle, and what to say of an answer outside.

The bound of an element is `8·E + 4·q + floor·(|o| + RMS(o))`: E is the largest error of the reference itself in the
contract's precision (as it is, summed in another order, and with inputs and parameters moved by one ulp), q the 90th
percentile of E over the tensor, o the oracle. The floor is a few hundred ulp of float32 arithmetic, so that another
order of a long sum passes, while TF32, bf16 or a dropped term do not; for half types it is the output's own rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_agent.judge import native, values
from cuda_agent.judge.values import Bytes, Floats, Spec, Value

ERROR_FACTOR = 8.0
TYPICAL_FACTOR = 4.0
FLOOR = {"float32": 2e-5, "float64": 1e-9, "complex64": 2e-5, "complex128": 1e-9, "float16": 2e-3, "bfloat16": 1.2e-2}
UNSTABLE_SHARE = 1e-3
"""Integers on which the references themselves disagree may be any of theirs, if they are fewer than this."""
PAPER_TOLERANCE = 1e-2


@dataclass(frozen=True)
class FloatLeaf:
    spec: Spec
    want: Floats
    bound: Floats

    @functools.cached_property
    def share(self) -> float:
        """Its bounds relative to |o| + RMS(o), as wide as nearly all of them are."""
        finite = np.isfinite(self.want) & np.isfinite(self.bound)
        size = np.abs(self.want[finite]) + rms(self.want[finite])
        shares = self.bound[finite] / np.where(size > 0, size, 1.0)
        return float(np.quantile(shares, 0.999)) if shares.size else 0.0

    def mismatch(self, spec: Spec, data: Bytes) -> str | None:
        got = values.floats(spec, data)
        found = native.compare(self.want, self.bound, got)
        if found is None:
            return None
        return _explain(self.spec, found, self.want, got, self.bound)


@dataclass(frozen=True)
class ExactLeaf:
    spec: Spec
    allowed: tuple[npt.NDArray[Any], ...]

    def mismatch(self, spec: Spec, data: Bytes) -> str | None:
        got = values.exact(spec, data)
        good = got == self.allowed[0]
        for other in self.allowed[1:]:
            good |= got == other
        if good.all():
            return None
        first = int(np.argmin(good))
        bad = int(good.size - np.count_nonzero(good))
        where = _index(self.spec.shape, first)
        want = self.allowed[0][first]
        return f"{bad} of {good.size} elements differ; the first at {where}: expected {want}, got {got[first]}"


Leaf = FloatLeaf | ExactLeaf


@dataclass(frozen=True)
class Expected:
    """The right output for one set of inputs and one state. Tensors in structure order, then extra ones."""

    shape: Any
    description: str
    leaves: tuple[Leaf, ...]
    names: tuple[str, ...]
    numbers: tuple[tuple[str, float, float], ...]
    """(kind, expected, bound) of each Python number."""

    @property
    def bytes(self) -> int:
        return sum(leaf.want.nbytes + leaf.bound.nbytes for leaf in self.leaves if isinstance(leaf, FloatLeaf))

    def structure_fault(self, got: Value) -> str | None:
        if values.skeleton(got.tree) != self.shape:
            return f"the output is {values.describe(got.tree, got.specs)}, expected {self.description}"
        specs = _ordered_specs(got)
        if len(specs) != len(self.leaves):
            return f"the output has {len(specs)} tensors, expected {len(self.leaves)}"
        for leaf, name, spec in zip(self.leaves, self.names, specs, strict=True):
            if spec.shape != leaf.spec.shape:
                return f"{name} has shape {list(spec.shape)}, expected {list(leaf.spec.shape)}"
            if spec.dtype != leaf.spec.dtype:
                return f"{name} is {spec.dtype}, expected {leaf.spec.dtype}"
        return None

    def mismatch(self, got: Value) -> str | None:
        """What is wrong with an output, for its writer; None if nothing is."""
        fault = self.structure_fault(got)
        if fault is not None:
            return fault
        for leaf, name, (spec, data) in zip(self.leaves, self.names, ordered(got), strict=True):
            fault = leaf.mismatch(spec, data)
            if fault is not None:
                return f"{name}: {fault}"
        for (kind, want, bound), (got_kind, number) in zip(self.numbers, values.numbers(got.tree), strict=True):
            same = number == want if kind in "bi" else _close(float(number), want, bound)
            if got_kind != kind or not same:
                return f"a number in the output is {number}, expected {want}"
        return None


def _close(got: float, want: float, bound: float) -> bool:
    if not np.isfinite(want):
        return bool(np.isnan(got)) if np.isnan(want) else got == want
    return abs(got - want) <= bound


def ordered(value: Value) -> list[tuple[Spec, Bytes]]:
    """The tensors of a value in structure order; those that belong to no place in it (extra outputs) follow."""
    order = values.tensor_order(value.tree)
    rest = [i for i in range(len(value.specs)) if i not in set(order)]
    return [(value.specs[i], value.data[i]) for i in [*order, *rest]]


def _ordered_specs(value: Value) -> list[Spec]:
    order = values.tensor_order(value.tree)
    return [value.specs[i] for i in [*order, *[i for i in range(len(value.specs)) if i not in set(order)]]]


class Unstable(Exception):
    """Integer outputs on which the runs of the reference disagree too often."""


def expect(
    runs: Sequence[Value], oracle: Value | None, names: Sequence[str], paper: bool = False, probe: bool = False
) -> Expected:
    """`runs`: outputs of the reference in the contract's precision, the plain one first; `oracle` in double precision
    or None. Raises ValueError where their structures differ, and for a probe Unstable where integers do."""
    plain = runs[0]
    shape = values.skeleton(plain.tree)
    for other in [*runs[1:], *([oracle] if oracle is not None else [])]:
        if values.skeleton(other.tree) != shape or len(other.specs) != len(plain.specs):
            raise ValueError("the reference's output changes its structure from call to call")
    columns = [ordered(run) for run in runs]
    centre = ordered(oracle) if oracle is not None else None
    leaves: list[Leaf] = []
    for i, (spec, data) in enumerate(columns[0]):
        if any(column[i][0].shape != spec.shape for column in columns):
            raise ValueError("the reference's output changes its shape from call to call")
        if spec.floating:
            arrays = [values.floats(*column[i]) for column in columns]
            leaf = bound_floats(spec, arrays, values.floats(*centre[i]) if centre else None)
            leaves.append(_paper_leaf(spec, arrays[0]) if paper else leaf)
        else:
            leaves.append(_exact_leaf(spec, [values.exact(*column[i]) for column in columns], probe))
        del data
    return Expected(
        shape, values.describe(plain.tree, plain.specs), tuple(leaves), tuple(names_of(plain, names)),
        _numbers(runs, oracle),
    )  # fmt: skip


def names_of(value: Value, extra: Sequence[str]) -> list[str]:
    return [*[f"output{path}" if path else "the output" for path in values.tensor_paths(value.tree)], *extra]


def bound_floats(spec: Spec, runs: Sequence[Floats], oracle: Floats | None) -> FloatLeaf:
    """See the module's docstring. Elements of which the runs disagree whether they are finite may be anything."""
    plain = runs[0]
    want = plain.copy() if oracle is None else oracle.copy()
    finite = np.isfinite(plain)
    lost = finite & ~np.isfinite(want)
    want[lost] = plain[lost]
    want[~finite] = plain[~finite]
    error = np.zeros(plain.shape)
    unsure = np.zeros(plain.shape, bool)
    with np.errstate(invalid="ignore", over="ignore"):
        for run in runs:
            unsure |= np.isfinite(run) != finite
            error = np.fmax(error, np.abs(np.where(np.isfinite(run), run, want) - want))
        error[~finite] = 0.0
        settled = finite & ~unsure
        scale = rms(want[settled])
        typical = float(np.quantile(error[settled], 0.9)) if settled.any() else 0.0
        floor = FLOOR[spec.dtype] * (np.abs(np.where(finite, want, 0.0)) + scale)
        # oracle error that no double can resolve: results that should be zero
        bound = ERROR_FACTOR * error + TYPICAL_FACTOR * typical + floor + 1e-37
    bound = np.minimum(bound, np.finfo(np.float64).max)
    bound[unsure] = np.inf
    return FloatLeaf(spec, want, bound)


def rms(x: Floats) -> float:
    if not x.size:
        return 0.0
    largest = float(np.abs(x).max())
    return largest * float(np.sqrt(np.mean((x / largest) ** 2))) if largest > 0 else 0.0


def _paper_leaf(spec: Spec, plain: Floats) -> FloatLeaf:
    finite = np.where(np.isfinite(plain), plain, 0.0)
    return FloatLeaf(spec, plain, PAPER_TOLERANCE + PAPER_TOLERANCE * np.abs(finite))


def _exact_leaf(spec: Spec, arrays: Sequence[npt.NDArray[Any]], probe: bool) -> ExactLeaf:
    unstable = np.zeros(arrays[0].shape, bool)
    for other in arrays[1:]:
        unstable |= other != arrays[0]
    many = np.count_nonzero(unstable) > UNSTABLE_SHARE * unstable.size
    if many and probe:
        raise Unstable
    if many or not unstable.any():
        return ExactLeaf(spec, (arrays[0],))
    return ExactLeaf(spec, tuple(arrays))


def _numbers(runs: Sequence[Value], oracle: Value | None) -> tuple[tuple[str, float, float], ...]:
    rows = []
    columns = [values.numbers(run.tree) for run in runs]
    centre = values.numbers(oracle.tree) if oracle is not None else columns[0]
    for i, (kind, plain) in enumerate(columns[0]):
        if kind in "bi":
            rows.append((kind, plain, 0.0))
            continue
        want = float(centre[i][1]) if np.isfinite(plain) else float(plain)
        error = max(abs(float(column[i][1]) - want) for column in columns) if np.isfinite(want) else 0.0
        rows.append((kind, want, (ERROR_FACTOR + TYPICAL_FACTOR) * error + 2 * FLOOR["float32"] * abs(want)))
    return tuple(rows)


def varies(expected: Expected) -> bool:
    """Whether some floating output has elements that differ by more than their bounds, or integers that differ."""
    for leaf in expected.leaves:
        if isinstance(leaf, ExactLeaf):
            if leaf.allowed[0].size > 1 and (leaf.allowed[0] != leaf.allowed[0][0]).any():
                return True
            continue
        usable = np.isfinite(leaf.want)
        if np.count_nonzero(usable) > 1:
            want = leaf.want[usable]
            if float(want.max() - want.min()) > 2 * float(leaf.bound[usable].min()):
                return True
    return False


def finite(value: Value) -> bool:
    return all(bool(np.isfinite(values.floats(s, d)).all()) for s, d in ordered(value) if s.floating)


def _index(shape: Sequence[int], flat: int) -> str:
    return str([int(i) for i in np.unravel_index(flat, shape)]) if shape else "the only element"


def _explain(spec: Spec, found: native.Mismatch, want: Floats, got: Floats, bound: Floats) -> str:
    shape = (*spec.shape, 2) if spec.dtype.startswith("complex") else spec.shape
    parts = [f"{found.count} of {want.size} elements are off"]
    for label, i in (("the first", found.first), ("the worst", found.worst)):
        parts.append(f"{label} at {_index(shape, i)}: expected {want[i]:.8g} ± {bound[i]:.2g}, got {got[i]:.8g}")
        if found.first == found.worst:
            break
    hint = _pattern(want, got)
    return "; ".join(parts) + (f" ({hint})" if hint else "")


def _pattern(want: Floats, got: Floats) -> str:
    """A guess at the kind of error, from all elements."""
    with np.errstate(all="ignore"):
        good = np.isfinite(want) & np.isfinite(got)
        if np.isnan(got).any() and not np.isnan(want).any():
            return "NaN where the reference has none"
        if good.any() and not got[good].any():
            return "the output is all zeros"
        ratio = got[good] / want[good]
        ratio = ratio[np.isfinite(ratio)]
        if ratio.size > 8:
            median = float(np.median(ratio))
            spread = float(np.quantile(np.abs(ratio - median), 0.9))
            if abs(median - 1) > 1e-3 and spread < 1e-4 * max(1.0, abs(median)):
                return f"all are off by the factor {median:.6g}"
        shift = got[good] - want[good]
        if shift.size > 8 and float(np.std(shift)) < 1e-4 * abs(float(np.mean(shift))):
            return f"all are off by the constant {float(np.mean(shift)):.6g}"
    return ""
