"""Expressions that make a tensor exactly: masks, positions and whatever is small. Others are stored, compressed."""

from __future__ import annotations

import base64
import math
import zlib

import torch

from cuda_agent.live.text import dtype_argument, literal_number, shape, sizes

SMALL = 64
"""Tensors of at most so many elements are written out."""
STORED_BYTES = 1 << 20
"""Compressed bytes that one irregular tensor may take in `task_constants.py`."""

_DECODER = '''"""Tensors of the reference that no short expression makes: zlib-compressed bytes in base64."""

import base64
import zlib

import torch


def stored(name, shape, dtype):
    data = bytearray(zlib.decompress(base64.b64decode(_DATA[name])))
    return torch.frombuffer(data, dtype=dtype).reshape(shape)


_DATA = {
'''


def exact(tensor: torch.Tensor) -> str | None:
    """A short expression that makes precisely this tensor, or None where there is none."""
    tensor = tensor.detach().cpu()
    if tensor.numel() == 0:
        return f"torch.empty({shape(tensor)}{dtype_argument(tensor)})"
    if (same := constant(tensor)) is not None:
        return same
    core = without_repetition(tensor)
    expression = _literal(core) or positions(core) or _triangle(core) or _outer_sum(core)
    if expression is None or core.shape == tensor.shape:
        return expression
    return f"{expression}.expand{shape(tensor)}.clone()"


def stored(tensors: dict[str, torch.Tensor]) -> str:
    """The text of `task_constants.py` with these tensors in it."""
    rows = [f"    {name!r}: {base64.b64encode(_compressed(tensor)).decode()!r},\n" for name, tensor in tensors.items()]
    return _DECODER + "".join(rows) + "}\n"


def storable(tensor: torch.Tensor) -> bool:
    return tensor.nbytes <= 32 * STORED_BYTES and len(_compressed(tensor, effort=1)) <= STORED_BYTES


def _compressed(tensor: torch.Tensor, effort: int = 6) -> bytes:
    return zlib.compress(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes(), effort)


def without_repetition(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` with size one in each dimension along which it merely repeats itself."""
    for dim in range(tensor.dim()):
        first = tensor.narrow(dim, 0, 1)
        if tensor.shape[dim] > 1 and _same(first.expand_as(tensor), tensor):
            tensor = first
    return tensor


def constant(tensor: torch.Tensor) -> str | None:
    """An expression for a tensor whose elements are all the same, or None."""
    flat = tensor.detach().cpu().flatten()
    if flat.is_complex() or not len(flat) or not _same(flat[:1].expand(len(flat)), flat):
        return None
    value = flat[0].item()
    if tensor.dtype is not torch.bool and value in (0, 1):
        return f"torch.{'ones' if value else 'zeros'}({sizes(tensor)}{dtype_argument(tensor)})"
    kind = _default_dtype(tensor)
    return f"torch.full({shape(tensor)}, {literal_number(value)}{dtype_argument(tensor, kind)})"


def _default_dtype(tensor: torch.Tensor) -> torch.dtype:
    """What torch makes of Python numbers of this kind."""
    if tensor.dtype is torch.bool:
        return torch.bool
    if tensor.is_complex():
        return torch.complex64
    return torch.float32 if tensor.is_floating_point() else torch.int64


def _literal(tensor: torch.Tensor) -> str | None:
    if tensor.numel() > SMALL:
        return None
    text = repr(tensor.tolist()).replace("nan", "torch.nan").replace("inf", "torch.inf")
    return f"torch.tensor({text}{dtype_argument(tensor, _default_dtype(tensor))})"


def positions(tensor: torch.Tensor) -> str | None:
    """0, 1, 2, ... along one dimension, with any start and step; None for anything else."""
    flat = tensor.flatten()
    if tensor.dtype is torch.bool or tensor.is_complex() or len(flat) < 3 or max(tensor.shape) != len(flat):
        return None
    start, step = flat[0].item(), flat[1].item() - flat[0].item()
    if step == 0 or not (math.isfinite(start) and math.isfinite(step)):
        return None
    if start == int(start) and step == int(step):
        start, step = int(start), int(step)
    stop = start + step * len(flat)
    if not _same(torch.arange(start, stop, step, dtype=tensor.dtype)[: len(flat)], flat):
        return None
    bounds = f"{start!r}, {stop!r}, {step!r}" if step != 1 else f"{start!r}, {stop!r}" if start else f"{stop!r}"
    default = torch.int64 if isinstance(start, int) and isinstance(step, int) else torch.float32
    made = f"torch.arange({bounds}{dtype_argument(tensor, default)})"
    return made if tensor.dim() == 1 else f"{made}.reshape({shape(tensor)})"


def _triangle(tensor: torch.Tensor) -> str | None:
    """Two values, one of them on and below some diagonal (a causal mask) or on the main diagonal alone."""
    long = [size for size in tensor.shape if size > 1]
    if len(long) != 2 or len(kinds := torch.unique(tensor)) != 2:
        return None
    rows, columns = long
    flat = tensor.reshape(rows, columns)
    offset = torch.arange(columns) - torch.arange(rows)[:, None]
    shaped = "" if tensor.dim() == 2 else f".reshape({shape(tensor)})"
    for inside, outside in (kinds, kinds.flip(0)):
        chosen = flat == inside
        diagonal = int(offset[chosen].max())
        if torch.equal(offset <= diagonal, chosen):
            return (
                _two_valued(
                    f"torch.ones({rows}, {columns}).tril({diagonal}).bool()", inside, outside.expand(rows, columns)
                )
                + shaped
            )
        if torch.equal(offset == 0, chosen):
            return _two_valued(f"torch.eye({rows}, {columns}).bool()", inside, outside.expand(rows, columns)) + shaped
    return None


def _two_valued(where: str, inside: torch.Tensor, outside: torch.Tensor) -> str:
    if inside.dtype is torch.bool:
        return where if bool(inside) else f"{where}.logical_not()"
    return f"{constant(outside)}.masked_fill({where}, {literal_number(inside.item())})"


def _outer_sum(tensor: torch.Tensor) -> str | None:
    """Integers that are the sum of a row's number and a column's (relative positions)."""
    if tensor.dim() != 2 or tensor.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64):
        return None
    column, row = tensor[:, :1].contiguous(), tensor[:1] - tensor[0, 0]
    if not torch.equal(column + row, tensor):
        return None
    parts = (exact(column), exact(row))
    return None if None in parts else f"({parts[0]} + {parts[1]})"


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
