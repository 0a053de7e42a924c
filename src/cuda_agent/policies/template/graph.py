"""The traced graph as it comes out of `trace`: records checked once, at the file's boundary."""

from __future__ import annotations

import keyword
import re
from typing import Any

from pydantic import BaseModel, ConfigDict


class Described(BaseModel):
    """A tensor: shape, dtype without "torch.", strides in elements."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    shape: list[int] | None = None
    dtype: str | None = None
    stride: list[int] | None = None


class GraphInput(Described):
    """A tensor argument of `forward`, or a plain value, which was baked into the trace."""

    name: str
    value: Any = None


class State(Described):
    name: str
    target: str
    """Name in the state dict."""
    kind: str
    """parameter or buffer"""


class Constant(Described):
    name: str
    data: str
    """zlib, then base85; empty where it is too large."""


class Operator(Described):
    name: str
    op: str
    """aten.NAME.OVERLOAD or python.NAME"""
    args: list[Any]
    kwargs: dict[str, Any] = {}
    items: list[Described | None] | None = None
    value: Any = None


class Graph(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    torch: str = ""
    inputs: list[GraphInput] = []
    state: list[State] = []
    constants: list[Constant] = []
    nodes: list[Operator] = []
    outputs: Any = None
    effects: list[dict[str, str]] = []
    unused_state: list[State] = []
    problems: list[str] = []


_TAKEN = re.compile(
    r"(t|t0|n|c|low|high|from|to|self|torch|state|fast|arena|stream|[ikvrs]\d+\w*|row\d*|line_\w*|all_\d+)$"
)


def safe_name(name: str) -> str:
    """A name for generated Python and C++ that collides with none of the generator's own."""
    name = re.sub(r"\W", "_", name)
    return f"{name}_" if _TAKEN.match(name) or keyword.iskeyword(name) else name
