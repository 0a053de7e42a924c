"""What can be turned without changing what is computed."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Knobs:
    fuse: bool = True
    """False: one kernel for each operation."""
    fold: bool = True
    """Fold what depends on the state only into the weights, in `prepare`."""
    stream: bool = False
    """Write large results past the caches."""
    tile: int = 0
    """Elements of the innermost parallel loop that are worked on together; 0: by the sizes of the caches."""
    lanes: int = 1
    """Independent accumulators of a cheap sum along a row, times the vector's width."""
    rows: int = 4
    """Rows whose running sums advance together, each waiting for its own last result only."""
    keep: bool = True
    """Keep costly values of a row for the next pass over it, instead of computing them again."""
    cores: int = 2
    """For how many cores to cut the work, at least."""
    serial: int = 24576
    """Work with fewer operations than this runs on one core."""

    def describe(self, other: Knobs | None = None) -> str:
        """The knobs that differ from `other` (default: from the defaults), for people."""
        base = other or Knobs()
        changed = [
            f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != getattr(base, f.name)
        ]
        return ", ".join(changed) or "defaults"
