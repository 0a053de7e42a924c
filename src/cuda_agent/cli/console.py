"""What all commands share: where text goes, how a failure ends the process, Ctrl-C.

Results go to stdout, everything else to stderr. Exit codes: 0 done (and, for `evaluate`, correct), 1 not correct,
2 unusable input, 3 the machine or this program failed, 130 interrupted.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, ParamSpec

from cuda_agent.errors import CudaAgentError, MachineError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

OK, NOT_CORRECT, UNUSABLE, FAILED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143

P = ParamSpec("P")

MAX_DELAY_S = 2.0
"""For so long a signal may wait until it does no harm."""


class State:
    """`command` is set when the options were understood and a command began."""

    command: str | None = None


@functools.cache
def stdout() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, markup=False)


@functools.cache
def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def say(text: str = "", style: str | None = None) -> None:
    """One result line (or more) on stdout; plain when that is no terminal."""
    stdout().print(text, style=style)


def note(text: str, style: str | None = None) -> None:
    """What is no result: progress, hints, warnings."""
    stderr().print(text, style=style)


def exit_code(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return UNUSABLE if isinstance(error, UsageError) else FAILED


def tell_failure(error: OSError) -> None:
    """One line on what the machine did not do (a full disk, a folder that is gone); a stdout that cannot be written to
    is not tried again."""
    where = f": {error.filename}" if error.filename else ""
    note(f"error: {error.strerror or error}{where}", style="red")
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def guarded(command: Callable[P, int | None]) -> Callable[P, None]:
    """A command that returns its exit code; errors on purpose and Ctrl-C become one line and a code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        import typer

        State.command = command.__name__
        try:
            code = command(*args, **kwargs) or OK
        except CudaAgentError as error:
            note(f"error: {error}", style="red")
            code = exit_code(error)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            tell_failure(error)
            code = FAILED
        except KeyboardInterrupt as error:
            note(f"interrupted{': ' + str(error) if str(error) else ''}")
            code = INTERRUPTED
        raise typer.Exit(code)

    return run


def catch_signals() -> None:
    """The first Ctrl-C (or SIGTERM, SIGHUP) unwinds, so that everything that was started is stopped; more of them do
    not get in the way."""

    def unwind_with(ending: BaseException) -> Callable[[int, FrameType | None], None]:
        since: list[float] = []

        def unwind(number: int, frame: FrameType | None) -> None:
            if number != signal.SIGALRM:
                signal.signal(number, signal.SIG_IGN)
                since.append(time.monotonic())
            if _would_be_lost(frame) and time.monotonic() - since[0] < MAX_DELAY_S:
                signal.signal(signal.SIGALRM, unwind)
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                return
            raise ending

        return unwind

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, unwind_with(KeyboardInterrupt()))
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, unwind_with(SystemExit(128 + number)))


def _would_be_lost(frame: FrameType | None) -> bool:
    """Whether an exception raised here does harm or nothing: pydantic drops, or turns into another one, what its
    serializer's calls into Python raise; Python drops what a destructor raises; and a connection to SQLite that an
    exception takes from SQLAlchemy in the middle of a statement keeps its lock, as long as the traceback lives."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package in ("pydantic", "sqlalchemy") or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


@contextmanager
def only_json() -> Iterator[Callable[[str], None]]:
    """Gives a function that writes to stdout; whatever else is printed meanwhile, by any process, goes to stderr."""
    if sys.stdout is None:
        raise MachineError("stdout is closed, so the JSON object has no place to go")
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)

    def write(text: str) -> None:
        with os.fdopen(os.dup(real), "w", encoding="utf-8") as stream:
            stream.write(text + "\n")

    try:
        yield write
    finally:
        sys.stdout.flush()
        os.dup2(real, 1)
        os.close(real)
