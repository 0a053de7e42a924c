"""What the judge found out about one solution, as one versioned JSON record.

Everything in a verdict is either `measured` by a trusted process or `claimed` by the worker that also holds the
candidate's code; `provenance` says which. Status, rewards and reported times follow from measured values only.
What was not measured is null.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

SCHEMA = 1

Stage = Literal["task", "build", "run", "compare", "time", "done"]
Source = Literal["measured", "claimed"]


class Status(StrEnum):
    CORRECT = "correct"
    WRONG = "wrong"
    FORBIDDEN = "forbidden"
    BUILD_ERROR = "build_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    INVALID_TASK = "invalid_task"
    JUDGE_ERROR = "judge_error"


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(Record):
    """A ratio of times (baseline over candidate) with its 95 % interval."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Width relative to the median."""
        return (self.high - self.low) / self.median


class Speedup(Record):
    eager: Interval | None = None
    compile: Interval | None = None


class Times(Record):
    """Microseconds a call, host and device work together; medians."""

    candidate: float | None = None
    eager: float | None = None
    compile: float | None = None
    floor: float | None = None
    prepare: float | None = None


class Check(Record):
    """One thing that was looked at. `passed` is None where it did not apply."""

    name: str
    passed: bool | None
    detail: str = ""
    source: Source = "measured"


class Verdict(Record):
    schema_version: int = Field(default=SCHEMA, alias="schema")
    id: str = ""
    status: Status
    message: str = ""
    stage: Stage = "done"
    task: str = ""
    solution: str = ""
    speedup: Speedup = Speedup()
    time_us: Times = Times()
    rewards: dict[str, float | None] = {}
    flags: list[str] = []
    checks: list[Check] = []
    guards: dict[str, bool] = {}
    device: dict[str, Any] = {}
    precision: str = "fp32"
    rules: str = "any"
    protocol: str = "strict"
    mode: str = "eval"
    careful: bool = False
    versions: dict[str, str] = {}
    seconds: dict[str, float] = {}
    provenance: dict[str, Source] = {}
    profile: dict[str, Any] | None = None
    created: str = ""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @field_validator("message")
    @classmethod
    def _is_text(cls, message: str) -> str:
        """What was raised or named by others may hold code points that are no text."""
        return message.encode("utf-8", "replace").decode("utf-8")

    @property
    def correct(self) -> bool:
        return self.status is Status.CORRECT

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(by_alias=True, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Verdict:
        """Raises pydantic.ValidationError if `text` is no verdict of this schema."""
        return cls.model_validate_json(text)

    def headline(self) -> str:
        """One line for a person: the status and, where it was timed, the speed-ups under their contract."""
        if not self.correct:
            return f"{self.status.value}: {self.message.splitlines()[0] if self.message else ''}".rstrip(": ")
        parts = []
        for name in ("eager", "compile"):
            interval: Interval | None = getattr(self.speedup, name)
            label = "torch.compile" if name == "compile" else name
            if interval is not None:
                parts.append(f"{interval.median:.2f}x {label} [{interval.low:.2f}, {interval.high:.2f}]")
        timed = ", ".join(parts) if parts else "not timed"
        return f"correct: {timed} ({self.precision}, rules {self.rules})"
