"""How shapes, dtypes and numbers are written."""

from __future__ import annotations

import json
import math
from typing import Any

import torch


def number(value: float, scale: float = 0.0) -> str:
    """`value` to two significant digits; to as many more as differences of about `scale` need."""
    more = math.log10(abs(value) / scale) if value and scale else 0.0
    return repr(float(f"{value:.{2 + max(0, math.ceil(more))}g}"))


def plus(value: float, scale: float) -> str:
    """`+ 1.5` or `- 1.5`, rounded as by `number`; nothing for zero."""
    return f" {'-' if value < 0 else '+'} {number(abs(value), scale)}" if value else ""


def sizes(tensor: torch.Tensor) -> str:
    """The arguments of `torch.zeros` and the like: `2, 3`, or `()` for a scalar."""
    return ", ".join(str(size) for size in tensor.shape) or "()"


def shape(tensor: torch.Tensor) -> str:
    return repr(tuple(tensor.shape))


def dtype_argument(tensor: torch.Tensor, default: torch.dtype = torch.float32) -> str:
    return "" if tensor.dtype is default else f", dtype={tensor.dtype}"


def literal(value: Any) -> str:
    """A Python constant as source, strings in double quotes."""
    if isinstance(value, str):
        return json.dumps(value) if value.isprintable() and "\\" not in value else repr(value)
    return literal_number(value) if isinstance(value, float) else repr(value)


def literal_number(value: float | complex) -> str:
    """`value` exactly."""
    return repr(value) if isinstance(value, complex) or math.isfinite(value) else f"float('{value}')"
