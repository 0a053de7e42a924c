"""NVIDIA's compute-sanitizer: memcheck for accesses outside of what was allocated, racecheck for shared memory.

torch's caching allocator would hide what lies outside of a tensor but inside of its block, so it is off, and memory
between allocations is padding that belongs to nobody. torch's own kernels are left out: they are not what is looked at.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from cuda_agent.profiling.findings import Finding, Looked
from cuda_agent.profiling.ncu import homes
from cuda_agent.profiling.process import Ran, Tool

Check = Literal["memcheck", "racecheck"]

TIMEOUT_S = 150.0
PADDING_BYTES = 4096
_PREFIX = "========="
_NOT_STARTED = (
    "before first instrumented API call",
    "Unable to connect",
    "Failed to connect",
    "couldn't find exit code",
)
# "… at KERNEL+0x160 in FILE:6" (also KERNEL:0x160); older ones "… at 0x160 in KERNEL" or "… in FILE:6:KERNEL"
_PLACE = re.compile(
    r"\bat (?:0x[0-9a-f]+ in (?:(?P<file>[^:\s]+):(?P<line>\d+):)?(?P<old>.+?)"
    r"|(?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<place>[^\s]+:\d+))?)"
    r"(?= by thread| and | \[|$)"
)

_NEAREST = re.compile(r"is (\d[\d,]* bytes (?:after|before) the nearest allocation)[^.]*?of size (\d[\d,]* bytes)")


def tool(check: Check) -> Tool | None:
    """How the driver is started behind it; None where it is not installed."""
    found = shutil.which("compute-sanitizer")
    if found is None:
        places = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
        if not places:
            return None
        found = str(places[-1])
    more = ["--padding", str(PADDING_BYTES), "--report-api-errors", "no"] if check == "memcheck" else []
    return Tool(
        argv=[
            found, "--tool", check, "--log-file", _log(check), "--show-backtrace", "no", "--print-limit", "50",
            "--check-exit-code", "no", "--launch-timeout", "60", "--kernel-name-exclude", "kns=N2at6native", *more,
        ],
        files=[_log(check)],
        readable=homes(found),
        environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    )  # fmt: skip


def looked(ran: Ran, check: Check) -> Looked:
    log = ran.files.get(_log(check), "")
    findings = list(parse(log))
    if findings or "SUMMARY" in log:
        return Looked(check, findings)
    if ran.finished.timed_out:
        return Looked(check, why=f"it did not come to its end in {TIMEOUT_S:.0f} s")
    said = [line.removeprefix(_PREFIX).strip() for line in log.splitlines()[1:]]
    last = (said or ran.finished.stderr.strip().splitlines() or [f"exit code {ran.finished.returncode}"])[-1]
    failed = any(words in log for words in _NOT_STARTED)
    return Looked(check, why=f"it could not attach to the process: {last}" if failed else f"it gave no summary: {last}")


def parse(log: str) -> Iterator[Finding]:
    for record in _records(log):
        place = _PLACE.search(record)
        if record.startswith("Invalid __") or "is misaligned" in record:
            kind: Literal["memory", "race"] = "memory"
            what = record.partition(" at ")[0]
        elif "Race reported" in record or "hazard detected" in record:
            kind, what = "race", "race in shared memory between a " + _accesses(record)
        else:
            continue
        if place is None:
            yield Finding(kind, what, "unknown kernel")
            continue
        file = place["place"] or (f"{place['file']}:{place['line']}" if place["file"] else "")
        name = _name(place["kernel"] or place["old"])
        yield Finding(kind, _lowered(what), name, file, _detail(record) if kind == "memory" else "")


def _log(check: Check) -> str:
    return f"{check}.log"


def _records(log: str) -> Iterator[str]:
    """Each report on one line. It begins one space behind the prefix; what belongs to it stands further right."""
    parts: list[str] = []
    for line in log.splitlines():
        text = line.removeprefix(_PREFIX)
        # the second access of a race stands on a line of its own, in some versions not further to the right
        goes_on = text.startswith(("  ", " and ")) or bool(parts and parts[-1].endswith(" at"))
        if goes_on and parts:
            parts.append(text.strip())
            continue
        if parts:
            yield " ".join(parts)
        parts = [text.strip()] if text.strip() else []
    if parts:
        yield " ".join(parts)


def _accesses(record: str) -> str:
    kinds = re.findall(r"\b(Read|Write|Atomic) access", record)
    other = re.findall(r"\band (?:Read|Write|Atomic) access at .+? in (\S+:\d+)", record)
    text = " and a ".join(dict.fromkeys(kind.lower() for kind in kinds)) or "access"
    return text + (f" at {other[0]}" if other else "")


def _detail(record: str) -> str:
    """By how much it is outside, as far as that is told."""
    found = re.search(
        r"is (\d[\d,]* bytes (?:after|before) the nearest allocation)[^.]*?of size (\d[\d,]* bytes)", record
    )
    if found:
        return f"{found[1]}, of {found[2]}"
    return next((words for words in ("out of bounds", "misaligned") if words in record), "")


def _name(text: str) -> str:
    """A kernel's name without its parameters, as its writer knows it."""
    name = text.strip().removeprefix("void ")
    return re.sub(r"(?<=[\w>])\([^()]*(\([^()]*\)[^()]*)*\)$", "", name)


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
