"""How other layers run a program: one call signature, with or without isolation."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MAX_OUTPUT_BYTES = 1 << 20


@dataclass(frozen=True)
class Finished:
    """How a program ended; `returncode` is negative for a signal, as in `subprocess`."""

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False


class Runner(Protocol):
    """Runs `argv` in `cwd`, the only place it may write to; each stream is cut to 1 MiB."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        timeout_s: float,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Finished: ...


def run_plain(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> Finished:
    """A `Runner` without any isolation; the whole process group is killed at the time limit."""
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timed_out = False
    try:
        out, err = process.communicate(stdin.encode(), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return Finished(process.returncode, _text(out), _text(err), timed_out)


def _text(data: bytes) -> str:
    return data[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
