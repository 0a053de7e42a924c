"""What the first process of a sandbox does with all the others: find, stop, wake, count and kill them."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Crowd:
    """All processes of a sandbox but the caller. In a PID namespace of its own (`isolated`) that is everybody;
    elsewhere the caller's descendants, which are kept findable by making the caller their subreaper."""

    isolated: bool

    def pids(self) -> list[int]:
        if self.isolated:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        return _descendants(os.getpid())

    def signal(self, number: int) -> None:
        if self.isolated:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, number)
            return
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def running(self) -> list[int]:
        """The processes of which a thread is neither stopped nor dead."""
        return [pid for pid in self.pids() if _runs(pid)]

    def resident_bytes(self) -> int:
        """Resident memory of all together; pages that they share count once a process."""
        total = 0
        for pid in self.pids():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
                fields = file.read().split()
                # private pages and shared memory, but not the mapped files that all Python processes share
                total += (int(fields[1]) - int(fields[2])) * _PAGE
        return total + _shared_memory_bytes()

    def kill(self) -> None:
        """Ends all of them and waits for those that are the caller's own."""
        for _ in range(1 if self.isolated else 50):
            self.signal(signal.SIGKILL)
            if self.isolated or not self.pids():
                break
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0 if self.isolated else os.WNOHANG)[0]:
                pass


def waited_ns(pid: int) -> int:
    """Nanoseconds that the threads of a process were ready to run and had no core; 0 where the kernel does not say."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[1])
    return total


def _shared_memory_bytes() -> int:
    """What lies in the sandbox's own memory file systems."""
    total = 0
    for path in ("/dev/shm", "/tmp"):
        with contextlib.suppress(OSError):
            info = os.statvfs(path)
            if info.f_files and info.f_blocks:
                total += (info.f_blocks - info.f_bfree) * info.f_frsize
    return total


def _descendants(root: int) -> list[int]:
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = [int(word) for word in file.read().split()]
                found += children
                waiting += children
    return found


def _runs(pid: int) -> bool:
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TtZXx":
                    return True
    except (OSError, IndexError):
        return False
    return False
