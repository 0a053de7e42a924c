"""What a sanitizer found in a solution's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """`what` says it in the tool's words, `place` is file:line where the tool knows it."""

    kind: Literal["memory", "race"]
    what: str
    kernel: str
    place: str = ""
    detail: str = ""

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{where}{self.kernel}: {self.what}{detail}"


@dataclass(frozen=True)
class Looked:
    """What one tool saw; `why` is set where it could not look."""

    tool: str
    findings: Sequence[Finding] = ()
    why: str = ""

    def of(self, kind: str) -> list[Finding]:
        """Each place once, in the order of their first."""
        found = {(f.what, f.kernel, f.place): f for f in reversed(self.findings) if f.kind == kind}
        return list(reversed(found.values()))


def listed(findings: Sequence[Finding]) -> str:
    lines = [str(finding) for finding in findings[:SHOWN]]
    return "\n".join(lines + ([f"… and {len(findings) - SHOWN} more places"] if len(findings) > SHOWN else []))
