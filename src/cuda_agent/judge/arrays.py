"""What the judge does with large arrays, alike for numpy (host memory) and torch tensors (a device's memory).

`data` is always a flat, contiguous array of bytes. Torch is imported only once a tensor shows up, so that judging on a
CPU goes without it in this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuda_agent.judge import native
from cuda_agent.judge.native import Mismatch

QUANTILE_SAMPLE = 1 << 22
"""Elements of a tensor that a quantile of it is taken from, at most."""
PART = 1 << 26
"""Elements of a tensor on a device that are worked on in double precision at a time."""
RUN = 32
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def on_host(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def namespace(x: Any) -> Any:
    """numpy or torch, which name most functions alike."""
    if on_host(x):
        return np
    import torch

    return torch


def generator_for(x: Any, generator: np.random.Generator) -> Any:
    """A generator of torch's on the device of `x` that goes on from numpy's."""
    import torch

    return torch.Generator(x.device).manual_seed(int(generator.integers(1 << 62)))


def copied(x: Any) -> Any:
    return x.copy() if on_host(x) else x.clone()


def put(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Copies each source into its target, all bytes."""
    if targets and not on_host(targets[0]):
        from cuda_agent.judge.worker.device_memory import copy_many

        copy_many(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        target[:] = source


def empty_like(x: Any) -> Any:
    return namespace(x).empty_like(x)


def same(a: Any, b: Any) -> bool:
    """Whether two flat, contiguous arrays hold the same bytes."""
    if on_host(a):
        return native.same(a, b)
    if _aligned(a) and _aligned(b):
        a, b = _words(a), _words(b)
    return a.numel() == b.numel() and bool((a == b).all())


def _words(data: Any) -> Any:
    return data.view(namespace(data).int64)


def _aligned(data: Any) -> bool:
    return int(data.numel()) % 8 == 0 and int(data.storage_offset()) % 8 == 0


def elements(data: Any, size: int) -> Any:
    """A view of the bytes as elements of `size` bytes, whatever they mean."""
    if on_host(data):
        return data.view(f"V{size}")
    return data.view(getattr(namespace(data), _INTEGERS[size]))


def integers(data: Any, size: int) -> Any:
    return data.view(getattr(namespace(data), _INTEGERS[size]))


def raw(x: Any) -> Any:
    return x.view(namespace(x).uint8)


def index(chosen: Any, x: Any) -> Any:
    """Positions, made with numpy, as an index into `x`."""
    return chosen if on_host(x) else namespace(x).from_numpy(np.ascontiguousarray(chosen)).to(x.device)


def cast(x: Any, like: Any) -> Any:
    return x.astype(like.dtype, copy=False) if on_host(like) else x.to(like.dtype)


def normal(x: Any, generator: np.random.Generator) -> Any:
    """Standard normal numbers, as many as `x` has; float64 for numpy, of the dtype of `x` for torch."""
    if on_host(x):
        return generator.standard_normal(x.shape)
    return namespace(x).randn(x.shape, dtype=x.dtype, device=x.device, generator=generator_for(x, generator))


def steps(x: Any, generator: np.random.Generator) -> Any:
    """-1, 0 or 1 for each element of an integer array."""
    if on_host(x):
        return generator.integers(-1, 2, x.shape, dtype=np.int8)
    torch = namespace(x)
    return torch.randint(-1, 2, x.shape, dtype=x.dtype, device=x.device, generator=generator_for(x, generator))


def parts(x: Any) -> list[slice]:
    """Of a flat array, one after the other, so that what is computed of each fits beside it: all of it on the host."""
    step = max(1, len(x)) if on_host(x) else PART
    return [slice(start, start + step) for start in range(0, max(1, len(x)), step)]


def double(x: Any) -> Any:
    return x if on_host(x) else x.double()


def finite_rms(x: Any) -> float:
    """Root mean square of the finite elements of a flat array; 0 where there are none."""
    found = []
    for part in parts(x):
        piece = double(x[part])
        found.append(rms_of(piece[namespace(x).isfinite(piece)]))
    return joined_rms(found)


def rms_of(x: Any) -> tuple[int, float]:
    """How many elements there are, and their root mean square; without overflow."""
    largest = float(abs(x).max()) if len(x) else 0.0
    return len(x), largest * float(((x / largest) ** 2).mean()) ** 0.5 if largest > 0 else 0.0


def joined_rms(found: Sequence[tuple[int, float]]) -> float:
    """Of several parts' counts and root mean squares."""
    largest = max((size for _, size in found), default=0.0)
    total = sum(count for count, _ in found)
    if not largest > 0:
        return 0.0
    return float(largest * (sum(count * (size / largest) ** 2 for count, size in found) / total) ** 0.5)


def far_apart(a: Any, b: Any, share: float) -> bool:
    """Whether elements that are finite in both differ by more than `share` of the largest of `a`."""
    xp, largest, most = namespace(a), 0.0, 0.0
    for part in parts(a):
        p, q = double(a[part]), double(b[part])
        usable = xp.isfinite(p) & xp.isfinite(q)
        p, q = p[usable], q[usable]
        if len(p):
            largest, most = max(largest, float(abs(p).max())), max(most, float(abs(p - q).max()))
    return most > share * largest


def sample(*xs: Any) -> tuple[Any, ...]:
    """The same regular sample of flat arrays of a device, as many elements as a quantile takes, in double precision;
    of the host's all."""
    step = 1 if on_host(xs[0]) else -(-len(xs[0]) // QUANTILE_SAMPLE) or 1
    return tuple(double(x[::step]) for x in xs)


def std(x: Any) -> float:
    """The standard deviation of the finite elements, in double precision; 0 where there are none."""
    finite = x[namespace(x).isfinite(x)]
    if not len(finite):
        return 0.0
    return float(np.std(finite, dtype=np.float64)) if on_host(x) else float(finite.double().std(correction=0))


def quantile(x: Any, q: float) -> float:
    """Of a flat, not empty array; for large tensors that of a regular sample."""
    if on_host(x):
        return float(np.quantile(x, q))
    step = -(-len(x) // QUANTILE_SAMPLE)
    sample = x[::step]
    return float(sample.kthvalue(1 + round(q * (len(sample) - 1))).values)


def blend(out: Any, a: Any, b: Any, size: int, seed: int) -> None:
    """Fills `out` with runs of elements (`size` bytes each) from `a` and `b`, rotated secretly."""
    if on_host(out):
        native.blend(out, a, b, size, seed)
        return
    generator = np.random.default_rng(seed)
    a, b, target = (elements(data, size) for data in (a, b, out))
    shift = int(generator.integers(len(a)))
    for part in parts(a):
        chosen = _runs(target[part][None], generator)[0]
        rotated = _around(b, part.start - shift, min(part.stop, len(a)) - shift)
        namespace(out).where(chosen, a[part], rotated, out=target[part])


def _around(x: Any, begin: int, end: int) -> Any:
    """The elements from `begin` to `end`, where those before the first are the last ones."""
    if begin >= 0:
        return x[begin:end]
    if end <= 0:
        return x[len(x) + begin : len(x) + end]
    return namespace(x).cat((x[begin:], x[:end]))


def blend_rows(out: Any, pool: Any, size: int, generator: np.random.Generator) -> None:
    """Fills each row of `out` (calls x bytes) with runs of elements of two rows of `pool` (draws x bytes), one of which
    is rotated secretly."""
    torch = namespace(out)
    calls = len(out)
    x, target = (elements(data, size) for data in (pool, out))
    count = x.shape[1]
    first = generator.integers(len(pool), size=calls)
    second = (first + generator.integers(1, len(pool), size=calls)) % len(pool)
    chosen = _runs(target, generator)
    rotated = torch.roll(x, int(generator.integers(count)), dims=1)
    torch.where(chosen, x[index(first, x)], rotated[index(second, x)], out=target)


def _runs(like: Any, generator: np.random.Generator) -> Any:
    """True or False for runs of RUN elements of each row."""
    torch, (rows, count) = namespace(like), like.shape
    runs = torch.randint(0, 2, (rows, -(-count // RUN)), dtype=torch.uint8, device=like.device,
                         generator=generator_for(like, generator))  # fmt: skip
    return runs.bool().repeat_interleave(RUN, dim=1)[:, :count]


def compare(want: Any, bound: Any, got: Any) -> Mismatch | None:
    """None if every element lies within its bound. Where `want` is not finite, `got` must be the same."""
    if on_host(want):
        return native.compare(want, bound, got)
    count, first, worst, excess = 0, -1, -1, 0.0
    for start in range(0, len(want), PART):
        over = _excess(*(x[start : start + PART].double() for x in (want, bound, got)))
        bad = over > 0
        found = int(bad.sum())
        if not found:
            continue
        if not count:
            first = start + int(bad.nonzero()[0])
        count += found
        most, at = over.max(0)
        if worst < 0 or float(most) > excess:
            worst, excess = start + int(at), float(most)
    return Mismatch(count, first, worst, excess) if count else None


def _excess(want: Any, bound: Any, got: Any) -> Any:
    """By how many bounds each element is off; 0 within its bound."""
    torch = namespace(want)
    inf = math.inf
    error = (got - want).abs()
    over = torch.where(error <= bound, 0.0, torch.where(bound > 0, error / bound, inf))
    over = torch.where(torch.isfinite(got), over, inf)
    alike = torch.where(torch.isnan(want), torch.isnan(got), got == want)
    over = torch.where(torch.isfinite(want), over, torch.where(alike, 0.0, inf))
    return torch.where(torch.isinf(bound), 0.0, over)


def outside(want: Any, got: Any, share: float) -> int:
    """How many elements of `got` are off by more than `share` of |want| + RMS(want), both flat; where `want` is not
    finite, those of another class."""
    if on_host(want):
        return native.outside(want, got, share)
    torch, size, count = namespace(want), finite_rms(want), 0
    for part in parts(want):
        x, y = want[part].double(), got[part].double()
        good = (y - x).abs() <= share * (x.abs() + size) + 1e-30
        alike = torch.where(torch.isnan(x), torch.isnan(y), y == x)
        count += int((~torch.where(torch.isfinite(x), good, alike)).sum())
    return count
