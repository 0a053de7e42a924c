"""Expressions that draw tensors: weights by mean and deviation, inputs of the same kind as an example.

Numbers are rounded to two digits, and a mean within its sampling error of zero is zero, so that the text of modules
which differ in their random initialisation alone is nearly the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from cuda_agent.live.exact import SMALL, constant, exact, positions, without_repetition
from cuda_agent.live.text import dtype_argument, number, plus, shape, sizes


def like_weights(tensor: torch.Tensor) -> str:
    """An expression for random values of the same shape, mean and deviation; positive values stay positive."""
    if (same := constant(tensor)) is not None:
        return same
    mean, deviation = moments(tensor)
    if not tensor.is_complex() and float(tensor.min()) > 0:
        spread = math.log1p((deviation / mean) ** 2)
        made = f"torch.empty({sizes(tensor)})"
        positive = (
            f"{made}.log_normal_({number(math.log(mean) - spread / 2, math.sqrt(spread))}, {number(math.sqrt(spread))})"
        )
        return positive + _cast(tensor)
    return _normal(tensor, mean, deviation)


def like_inputs(tensor: torch.Tensor) -> str:
    """An expression for another example: the same shape and dtype, and values of the same kind."""
    tensor = tensor.detach().cpu()
    if tensor.numel() == 0:
        return f"torch.empty({sizes(tensor)}{dtype_argument(tensor)})"
    if tensor.dtype is torch.bool:
        same = exact(tensor) if tensor.numel() > SMALL else constant(tensor)
        return same or f"torch.rand({sizes(tensor)}) < {number(float(tensor.double().mean()))}"
    if tensor.is_floating_point() or tensor.is_complex():
        return _float_inputs(tensor)
    return _integer_inputs(tensor)


def _float_inputs(tensor: torch.Tensor) -> str:
    if not bool(torch.isfinite(tensor).all()):
        return _mask_inputs(tensor)
    mean, deviation = moments(tensor)
    if tensor.is_complex():
        return _normal(tensor, mean, deviation)
    low, high = float(tensor.min()), float(tensor.max())
    if low == high:  # a placeholder or a single number: inputs that never change say nothing
        return _scaled(tensor, abs(low), low / 2) if low else _normal(tensor, 0.0, 1.0)
    if bool(((tensor == 0) | (tensor == 1)).all()):
        return f"(torch.rand({sizes(tensor)}) < {number(mean)}).to({tensor.dtype})"
    if low >= 0:
        return _scaled(tensor, 1.0, 0.0) if low < 0.5 < high <= 1 else _scaled(tensor, high - low, low)
    return _normal(tensor, mean, deviation)


def _mask_inputs(tensor: torch.Tensor) -> str:
    """Additive masks of zeros and -inf: the same where they follow a rule, else as many -inf at random."""
    if (same := exact(tensor)) is not None and tensor.numel() > SMALL:
        return same
    share = float(torch.isfinite(tensor).double().mean())
    hidden = "-torch.inf" if bool((tensor == -torch.inf).any()) else "torch.inf"
    zeros = f"torch.zeros({sizes(tensor)}{dtype_argument(tensor)})"
    return f"{zeros}.masked_fill(torch.rand({sizes(tensor)}) > {number(share)}, {hidden})"


def _integer_inputs(tensor: torch.Tensor) -> str:
    low, high = int(tensor.min()), int(tensor.max())
    core = without_repetition(tensor)
    if low == high or (core.numel() > 2 and positions(core) is not None):
        made = exact(tensor)
        assert made is not None
        return made
    drawn = f"torch.randint({low}, {high + 1}, {shape(tensor)}{dtype_argument(tensor, torch.int64)})"
    rising = tensor.dim() == 1 and tensor.numel() > 2 and bool((tensor.diff() >= 0).all())
    return f"{drawn}.sort().values" if rising else drawn


def with_layout(make: Callable[[torch.Tensor], str], tensor: torch.Tensor) -> str:
    """What `make` writes for `tensor`, so that the result has its strides too."""
    if tensor.is_contiguous() or tensor.numel() < 2:
        return make(tensor)
    strides = tensor.stride()
    if 0 in strides:
        core = tensor[tuple(slice(1) if stride == 0 else slice(None) for stride in strides)]
        return f"({with_layout(make, core)}).expand{shape(tensor)}"
    order = sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], dim))
    if tensor.permute(order).is_contiguous():
        back = tuple(order.index(dim) for dim in range(tensor.dim()))
        return f"({make(tensor.permute(order))}).permute{back}"
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    base = f"torch.empty({span}{dtype_argument(tensor)}).as_strided({shape(tensor)}, {strides})"
    return f"{base}.copy_({make(tensor)})"


def moments(tensor: torch.Tensor) -> tuple[float, float]:
    """Mean and deviation; a mean within four times its sampling error of zero is zero."""
    wide = (tensor.detach().real if tensor.is_complex() else tensor.detach()).double()
    mean = float(wide.mean())
    deviation = float(wide.std()) if wide.numel() > 1 else 0.0
    return (0.0 if abs(mean) < 4 * deviation / math.sqrt(wide.numel()) else mean), deviation


def _cast(tensor: torch.Tensor) -> str:
    return "" if tensor.dtype is torch.float32 else f".to({tensor.dtype})"


def _scaled(tensor: torch.Tensor, factor: float, offset: float) -> str:
    made = f"torch.rand({sizes(tensor)})"
    made += f" * {number(factor)}" if factor != 1 else ""
    made += plus(offset, factor)
    return f"({made}){_cast(tensor)}" if _cast(tensor) else made


def _normal(tensor: torch.Tensor, mean: float, deviation: float) -> str:
    kind = dtype_argument(tensor) if tensor.is_complex() else ""
    made = f"torch.randn({sizes(tensor)}{kind})"
    made += f" * {number(deviation)}" if abs(deviation - 1) > 3 * deviation / math.sqrt(tensor.numel()) else ""
    made += plus(mean, deviation)
    cast = "" if kind else _cast(tensor)
    return f"({made}){cast}" if cast else made
