"""Which state of the sources a published number was measured with."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    """The commit's short name, with "+changes" when a tracked source differs from it; "unknown" without git."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    if shutil.which("git") is None:
        return "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "examples", "benchmarks")
    return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "") or "unknown"
