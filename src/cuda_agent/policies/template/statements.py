"""What one kernel computes, as statements sorted into regions.

A kernel's elements are those of its roots. Some of their loop variables (P) are shared by every element of a row: the
reductions inside the kernel depend on them alone. The rest (R) run along the row. Execution order:

    section 0, phase 1, section 1, phase 2, section 2, …, final

A phase is a set of loops along the row that ends in reductions; a section computes once for a row (from reductions
that are complete); `final` runs along the row and stores. Sections are even regions, the others odd.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cuda_agent.policies.template.index import Index
from cuda_agent.policies.template.ir import Node, Point, Scan

Coords = tuple[Index, ...]
Axes = tuple[str, ...]


class NeedRealise(Exception):
    """A value must lie in memory before this kernel can be written."""

    def __init__(self, node: Node) -> None:
        super().__init__("realise")
        self.node = node


@dataclass(frozen=True)
class Buffer:
    """Memory: what the generated code calls it, and its size in elements."""

    name: str
    dtype: str
    numel: int
    kind: str
    """argument, state, constant, derived, call, temporary, output or row (scratch of one kernel)"""


@dataclass(frozen=True)
class Place:
    """Where a value lies."""

    buffer: Buffer
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Load:
    buffer: Buffer
    index: Index


@dataclass(eq=False)
class Statement:
    """`const T name = template(args);` in `region`. Kinds: let, reduce (its result), scan (running value)."""

    name: str
    dtype: str
    template: str
    args: tuple[Statement | Load | Index | str, ...]
    region: int
    support: frozenset[str]
    """Loop variables on which the value depends."""
    kind: str = "let"
    keep_in: Buffer | None = None
    """Row scratch that keeps the value for later regions."""
    used_in: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Accumulation:
    """One reduction: `result` gets the fold of `value` over the loops `axes`, as far as `guards` hold."""

    op: str
    value: Statement | str
    result: Statement
    axes: Axes
    guards: tuple[tuple[Index, int], ...]
    """(index, size): only where 0 <= index < size."""


@dataclass(eq=False)
class Store:
    buffer: Buffer
    index: Index
    value: Statement | str
    region: int


@dataclass(eq=False)
class Body:
    """Everything about one kernel but its loops."""

    parallel: Axes
    """P, outermost first"""
    along: Axes
    """R of the final region"""
    ranges: dict[str, int]
    statements: list[Statement]
    accumulations: dict[int, list[Accumulation]]
    stores: list[Store]
    scan: Scan | None
    scan_of: tuple[Statement | str, Statement] | None
    """(value, running result)"""

    memo: dict[object, Statement | str]

    def origins(self, region: int) -> Iterator[tuple[tuple[Node, Coords], Statement]]:
        """The operations that were written into a region, in order: (node, coordinates) and the statement."""
        for key, value in self.memo.items():
            if (
                isinstance(key, tuple)
                and key[0] == region
                and isinstance(key[1], Point)
                and isinstance(value, Statement)
            ):
                yield (key[1], key[2]), value

    @property
    def phases(self) -> int:
        return max(self.accumulations, default=0)

    @property
    def final(self) -> int:
        return 2 * self.phases + 1


def mark_use(value: Statement | Load | Index | str, region: int) -> None:
    if isinstance(value, Statement):
        value.used_in.add(region)
