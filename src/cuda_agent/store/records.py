"""What the store hands out: plain frozen records, free of the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

RunStatus = Literal["running", "finished", "failed", "interrupted"]


@dataclass(frozen=True)
class Run:
    """One piece of work that a person started. A killed process leaves it `running`."""

    id: str
    kind: str
    """The verb: `optimize`, later `train` and others."""
    status: RunStatus
    config: Mapping[str, Any]
    """What it was started with, enough to go on with it."""
    result: Mapping[str, Any] | None
    created: str
    """UTC, ISO 8601."""
    updated: str


@dataclass(frozen=True)
class Event:
    """One thing that happened in a run; `number` counts from 1 within the run."""

    run: str
    number: int
    kind: str
    payload: Mapping[str, Any]
    created: str
