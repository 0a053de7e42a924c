"""Many may build and check at once; who measures has the machine alone, also among the processes of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path


class Quiet:
    """A lock for sharers and one measurer; who waits to measure goes before new sharers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharers = 0
        self._measuring = False
        self._waiting = 0

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._measuring and not self._waiting)
            self._sharers += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharers -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._measuring and not self._sharers)
            self._waiting -= 1
            self._measuring = True
        try:
            with _between_processes():
                yield
        finally:
            with self._changed:
                self._measuring = False
                self._changed.notify_all()


@contextlib.contextmanager
def _between_processes() -> Iterator[None]:
    """One measurement at a time on this machine, among this user's processes."""
    path = Path(tempfile.gettempdir()) / f"cuda-agent-measure-{os.getuid()}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
