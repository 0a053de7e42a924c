"""Index expressions: affine in loop variables, so that views cost nothing and neighbouring loops can be merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_agent.policies.template.ir import Shape


class NeedSplit(Exception):
    """The loop over `var` must become two, the inner one of size `inner`, for an index to stay affine."""

    def __init__(self, var: str, inner: int) -> None:
        super().__init__(f"split {var} by {inner}")
        self.var, self.inner = var, inner


class NotAffine(Exception):
    """No affine index: the value must be read from memory of its own."""


@dataclass(frozen=True)
class Index:
    """sum(coefficient * variable) + const; variables that are no loops hold values read at run time."""

    terms: tuple[tuple[str, int], ...] = ()
    const: int = 0

    @classmethod
    def of(cls, var: str) -> Index:
        return cls(((var, 1),))

    @property
    def vars(self) -> frozenset[str]:
        return frozenset(v for v, _ in self.terms)

    def coefficient(self, var: str) -> int:
        return next((c for v, c in self.terms if v == var), 0)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.const + other)
        terms = dict(self.terms)
        for var, c in other.terms:
            terms[var] = terms.get(var, 0) + c
        return Index(tuple(sorted((v, c) for v, c in terms.items() if c)), self.const + other.const)

    def __mul__(self, factor: int) -> Index:
        return Index(tuple((v, c * factor) for v, c in self.terms) if factor else (), self.const * factor)

    def substitute(self, changes: Mapping[str, Index]) -> Index:
        if not any(v in changes for v, _ in self.terms):
            return self
        total = Index((), self.const)
        for var, c in self.terms:
            total = total + changes.get(var, Index.of(var)) * c
        return total

    def text(self) -> str:
        parts = [var if c == 1 else f"{c} * {var}" for var, c in sorted(self.terms, key=lambda t: (-t[1], t[0]))]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")


def flatten(coords: tuple[Index, ...], strides: tuple[int, ...], offset: int = 0) -> Index:
    total = Index((), offset)
    for coord, stride in zip(coords, strides, strict=True):
        total = total + coord * stride
    return total


def unflatten(flat: Index, shape: Shape, ranges: Mapping[str, int]) -> tuple[Index, ...]:
    """The coordinates in `shape` of a flat index. Raises NeedSplit or NotAffine."""
    coords: list[Index] = []
    for size in reversed(shape[1:]):
        flat, rest = _divide(flat, size, ranges)
        coords.append(rest)
    return (*([flat] if shape else []), *reversed(coords))


def _divide(flat: Index, size: int, ranges: Mapping[str, int]) -> tuple[Index, Index]:
    if size == 1:
        return flat, Index()
    quotient = Index(tuple((v, c // size) for v, c in flat.terms if c % size == 0), flat.const // size)
    rest = Index(tuple((v, c) for v, c in flat.terms if c % size), flat.const % size)
    if any(v not in ranges for v in rest.vars):
        raise NotAffine
    high = rest.const + sum(max(0, c * (ranges[v] - 1)) for v, c in rest.terms)
    low = rest.const + sum(min(0, c * (ranges[v] - 1)) for v, c in rest.terms)
    if low >= 0 and high < size:
        return quotient, rest
    for var, c in rest.terms:
        inner = size // c if c > 0 and size % c == 0 else 0
        if inner and ranges[var] > inner and ranges[var] % inner == 0:
            raise NeedSplit(var, inner)
    raise NotAffine
