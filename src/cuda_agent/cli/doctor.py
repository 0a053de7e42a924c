"""`cuda-agent doctor`: what this machine can do, what is missing and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda_agent.cli import options
from cuda_agent.cli.console import FAILED, OK, guarded, say, stderr

if TYPE_CHECKING:
    from cuda_agent.cli.machine import Finding

_MARKS = {"ok": ("ok     ", "green"), "missing": ("MISSING", "bold red"), "optional": ("-      ", "dim")}


@guarded
def doctor(json: options.JsonOption = False, store: options.StoreOption = None) -> int:
    """Say what this machine can do, what is missing and how to get it.

    Exit code: 0 if `optimize` and `evaluate` work here, 3 if not.
    """
    from cuda_agent.cli import machine

    with stderr().status("looking at this machine …"):
        findings = machine.examine(store)
    works = all(finding.state != "missing" for finding in findings)
    if json:
        _print_json(findings, works)
    else:
        _print(findings, works)
    return OK if works else FAILED


def _print(findings: list[Finding], works: bool) -> None:
    for finding in findings:
        mark, style = _MARKS[finding.state]
        say(f"{mark} {finding.name:14}{finding.value}", style=style if finding.state != "ok" else None)
        if finding.hint:
            say(f"{'':22}→ {finding.hint}")
    say()
    if works:
        say("optimize and evaluate work here.", style="bold green")
    else:
        missing = ", ".join(finding.name for finding in findings if finding.state == "missing")
        say(f"optimize and evaluate do not work here yet: {missing}.", style="bold red")


def _print_json(findings: list[Finding], works: bool) -> None:
    import json
    from dataclasses import asdict

    print(json.dumps({"schema": 1, "ok": works, "findings": [asdict(finding) for finding in findings]}, indent=2))
