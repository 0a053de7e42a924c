"""What a right answer may look like, and what to say of one that does not; `bounds.py` has how far off it may be."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_agent.judge import arrays, native, values
from cuda_agent.judge.bounds import ERROR_FACTOR, FLOOR, TYPICAL_FACTOR, bounds, paper_bounds
from cuda_agent.judge.values import Bytes, Floats, Spec, Value

UNSTABLE_SHARE = 1e-3
"""Integers on which the references themselves disagree may be any of theirs, if they are fewer than this."""


@dataclass(frozen=True)
class FloatLeaf:
    spec: Spec
    want: Floats
    bound: Floats

    @functools.cached_property
    def share(self) -> float:
        """Its bounds relative to |o| + RMS(o), as wide as nearly all of them are."""
        xp, rms = arrays.namespace(self.want), arrays.finite_rms(self.want)
        want, bound = arrays.sample(self.want, self.bound)
        finite = xp.isfinite(want) & xp.isfinite(bound)
        size = xp.abs(want[finite]) + rms
        shares = bound[finite] / xp.where(size > 0, size, 1.0)
        return arrays.quantile(shares, 0.999) if len(shares) else 0.0

    def lean(self) -> FloatLeaf:
        """What is left without its elements: `share`."""
        other = FloatLeaf(self.spec, arrays.copied(self.want[:0]), arrays.copied(self.bound[:0]))
        other.__dict__["share"] = self.share
        return other

    def mismatch(self, spec: Spec, data: Bytes) -> str | None:
        got = values.floats(spec, data)
        found = arrays.compare(self.want, self.bound, got)
        if found is None:
            return None
        return _explain(self.spec, found, self.want, got, self.bound)


@dataclass(frozen=True)
class ExactLeaf:
    spec: Spec
    allowed: tuple[npt.NDArray[Any], ...]

    def lean(self) -> ExactLeaf:
        return ExactLeaf(self.spec, tuple(arrays.copied(values[:0]) for values in self.allowed))

    def mismatch(self, spec: Spec, data: Bytes) -> str | None:
        got = values.exact(spec, data)
        good = got == self.allowed[0]
        for other in self.allowed[1:]:
            good |= got == other
        if good.all():
            return None
        wrong = arrays.namespace(good).where(~good)[0]
        first = int(wrong[0])
        where = _index(self.spec.shape, first)
        want, found = self.allowed[0][first].item(), got[first].item()
        return f"{len(wrong)} of {len(good)} elements differ; the first at {where}: expected {want}, got {found}"


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

    @property
    def finite(self) -> bool:
        """Whether every number and element that is no integer is finite."""
        floats = [leaf.want for leaf in self.leaves if isinstance(leaf, FloatLeaf)]
        return all(bool(arrays.namespace(want).isfinite(want).all()) for want in floats)

    def lean(self) -> Expected:
        """Without elements: what outputs look like, and how wide their bounds are."""
        return replace(self, leaves=tuple(leaf.lean() for leaf in self.leaves))

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
            found = [values.floats(*column[i]) for column in columns]
            around = values.floats(*centre[i]) if centre else None
            leaves.append(FloatLeaf(spec, *(paper_bounds(found[0]) if paper else bounds(spec.dtype, found, around))))
        else:
            leaves.append(_exact_leaf(spec, [values.exact(*column[i]) for column in columns], probe))
        del data
    return Expected(
        shape, values.describe(plain.tree, plain.specs), tuple(leaves), tuple(names_of(plain, names)),
        _numbers(runs, oracle),
    )  # fmt: skip


def names_of(value: Value, extra: Sequence[str]) -> list[str]:
    return [*[f"output{path}" if path else "the output" for path in values.tensor_paths(value.tree)], *extra]


def _exact_leaf(spec: Spec, columns: Sequence[Any], probe: bool) -> ExactLeaf:
    unstable = columns[0] != columns[0]
    for other in columns[1:]:
        unstable |= other != columns[0]
    many = int(unstable.sum()) > UNSTABLE_SHARE * len(unstable)
    if many and probe:
        raise Unstable
    if many or not unstable.any():
        return ExactLeaf(spec, (columns[0],))
    return ExactLeaf(spec, tuple(columns))


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
            if len(leaf.allowed[0]) > 1 and (leaf.allowed[0] != leaf.allowed[0][0]).any():
                return True
            continue
        want, bound = arrays.sample(leaf.want, leaf.bound)
        usable = arrays.namespace(want).isfinite(want)
        if int(usable.sum()) > 1:
            want = want[usable]
            if float(want.max() - want.min()) > 2 * float(bound[usable].min()):
                return True
    return False


def finite(value: Value) -> bool:
    return all(bool(arrays.namespace(d).isfinite(values.floats(s, d)).all()) for s, d in ordered(value) if s.floating)


def _index(shape: Sequence[int], flat: int) -> str:
    return str([int(i) for i in np.unravel_index(flat, shape)]) if shape else "the only element"


def _explain(spec: Spec, found: native.Mismatch, want: Any, got: Any, bound: Any) -> str:
    shape = (*spec.shape, 2) if spec.dtype.startswith("complex") else spec.shape
    parts = [f"{found.count} of {len(want)} elements are off"]
    for label, i in (("the first", found.first), ("the worst", found.worst)):
        expected, far, is_now = (float(x[i]) for x in (want, bound, got))
        parts.append(f"{label} at {_index(shape, i)}: expected {expected:.8g} ± {far:.2g}, got {is_now:.8g}")
        if found.first == found.worst:
            break
    hint = _pattern(want, got)
    return "; ".join(parts) + (f" ({hint})" if hint else "")


def _pattern(want: Any, got: Any) -> str:
    """A guess at the kind of error, from all elements or a sample of them."""
    xp = arrays.namespace(got)
    want, got = arrays.sample(want, got)
    with np.errstate(all="ignore"):
        good = xp.isfinite(want) & xp.isfinite(got)
        if xp.isnan(got).any() and not xp.isnan(want).any():
            return "NaN where the reference has none"
        if good.any() and not got[good].any():
            return "the output is all zeros"
        ratio = got[good] / want[good]
        ratio = ratio[xp.isfinite(ratio)]
        if len(ratio) > 8:
            median = arrays.quantile(ratio, 0.5)
            spread = arrays.quantile(abs(ratio - median), 0.9)
            if abs(median - 1) > 1e-3 and spread < 1e-4 * max(1.0, abs(median)):
                return f"all are off by the factor {median:.6g}"
        shift = got[good] - want[good]
        if len(shift) > 8 and arrays.std(shift) < 1e-4 * abs(float(shift.mean())):
            return f"all are off by the constant {float(shift.mean()):.6g}"
    return ""
