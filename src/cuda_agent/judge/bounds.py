"""How far an answer may be off: bounds around a double-precision oracle.

The bound of an element is `8·E + 4·q + floor·(|o| + RMS(o))`: E is the largest error of the reference itself in the
contract's precision (as it is, summed in another order, and with inputs and parameters moved by one ulp), q the 90th
percentile of E over the tensor, o the oracle. The floor is a few hundred ulp of float32 arithmetic, so that another
order of a long sum passes, while TF32, bf16 or a dropped term do not; for half types it is the output's own rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_agent.judge import arrays
from cuda_agent.judge.values import Floats

ERROR_FACTOR = 8.0
TYPICAL_FACTOR = 4.0
FLOOR = {"float32": 2e-5, "float64": 1e-9, "complex64": 2e-5, "complex128": 1e-9, "float16": 2e-3, "bfloat16": 1.2e-2}
PAPER_TOLERANCE = 1e-2
_LARGEST = float(np.finfo(np.float32).max)


def bounds(dtype: str, runs: Sequence[Floats], oracle: Floats | None) -> tuple[Floats, Floats]:
    """What is wanted and by how much it may be missed, flat; see the module's docstring. Elements of which the runs
    disagree whether they are finite may be anything (their bound is infinite)."""
    parts = arrays.parts(runs[0])
    sizes, errors, errs = [], [], None
    for part in parts:
        errs = _errors(runs, oracle, part)
        want, error, settled, _ = errs
        sizes.append(arrays.rms_of(want[settled]))
        errors.append(error[settled] if len(parts) == 1 else arrays.sample(error[settled])[0])
    rms = arrays.joined_rms(sizes)
    all_errors = errors[0] if len(errors) == 1 else arrays.namespace(runs[0]).cat(errors)
    typical = arrays.quantile(all_errors, 0.9) if len(all_errors) else 0.0
    kept = _Joined(len(runs[0]))
    for part in parts:
        want, error, settled, unsure = errs if errs is not None and len(parts) == 1 else _errors(runs, oracle, part)
        xp = arrays.namespace(want)
        with np.errstate(invalid="ignore", over="ignore"):
            floor = FLOOR[dtype] * (xp.abs(xp.where(settled | unsure, want, 0.0)) + rms)
            # 1e-37: oracle error that no double can resolve, in results that should be zero
            bound = ERROR_FACTOR * error + TYPICAL_FACTOR * typical + floor + 1e-37
        bound = xp.clip(bound, None, np.finfo(np.float64).max)
        bound[unsure] = np.inf
        kept.put(part, *_stored(dtype, want, bound))
    return kept.both


def paper_bounds(plain: Floats) -> tuple[Floats, Floats]:
    """One absolute and relative tolerance around what the reference itself gives."""
    kept = _Joined(len(plain))
    for part in arrays.parts(plain):
        want = arrays.double(plain[part])
        xp = arrays.namespace(want)
        bound = PAPER_TOLERANCE + PAPER_TOLERANCE * xp.abs(xp.where(xp.isfinite(want), want, 0.0))
        kept.put(part, *_stored("float64" if plain.dtype == want.dtype else "float32", want, bound))
    return kept.both


def _errors(runs: Sequence[Floats], oracle: Floats | None, part: slice) -> tuple[Any, Any, Any, Any]:
    """Of a part of the elements: what is wanted, the runs' largest error, which are finite in all runs, and of which
    they disagree."""
    plain = arrays.double(runs[0][part])
    xp = arrays.namespace(plain)
    want = arrays.copied(plain if oracle is None else arrays.double(oracle[part]))
    finite = xp.isfinite(plain)
    lost = finite & ~xp.isfinite(want)
    want[lost] = plain[lost]
    want[~finite] = plain[~finite]
    error = xp.zeros_like(plain)
    unsure = xp.zeros_like(finite)
    with np.errstate(invalid="ignore", over="ignore"):
        for run in runs:
            values = arrays.double(run[part])
            unsure |= xp.isfinite(values) != finite
            error = xp.fmax(error, xp.abs(xp.where(xp.isfinite(values), values, want) - want))
    error[~finite] = 0.0
    return want, error, finite & ~unsure, unsure


def _stored(dtype: str, want: Any, bound: Any) -> tuple[Any, Any]:
    """On a device, where large outputs lie, in single precision unless the output has more; what rounding takes from
    the bound is less than a hundredth of it."""
    if arrays.on_host(want) or dtype in ("float64", "complex128"):
        return want, bound
    xp = arrays.namespace(want)
    unsure, finite = xp.isinf(bound), xp.isfinite(want)
    bound = (bound + 1e-7 * xp.where(finite, want.abs(), 0.0)).clip(max=_LARGEST)
    bound[unsure] = np.inf
    return xp.where(finite, want.clip(-_LARGEST, _LARGEST), want).float(), bound.float()


class _Joined:
    """Two flat arrays, made of their parts."""

    both: tuple[Any, Any]

    def __init__(self, length: int) -> None:
        self._length = length

    def put(self, part: slice, want: Any, bound: Any) -> None:
        if len(want) == self._length:
            self.both = want, bound
            return
        if part.start == 0:
            self.both = want.new_empty(self._length), bound.new_empty(self._length)
        self.both[0][part], self.both[1][part] = want, bound
