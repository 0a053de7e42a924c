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
        return total + (_shared_memory_bytes() if self.isolated else 0)

    def kill(self) -> None:
        """Ends all of them and waits for those that are the caller's own."""
        for _ in range(1 if self.isolated else 50):
            self.signal(signal.SIGKILL)
            if self.isolated or not self.pids():
                break
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0 if self.isolated else os.WNOHANG)[0]:
                pass


class Threads:
    """The threads of one stopped process: how long they had to wait for a core, and a core for each that works.

    A process that is stopped and continued often finds its OpenMP threads together on one core, for a millisecond or
    more, though others are idle. So each thread that worked last time starts on a core of its own; the first thread is
    free again at once, since threads that it starts inherit where it may run.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cores = sorted(os.sched_getaffinity(0))
        self._ran: dict[int, int] = {}

    def waited_ns(self) -> int:
        """Nanoseconds that all were ready to run and had no core since they began; 0 where the kernel does not say."""
        return sum(waited for _, waited in self._times().values())

    def place(self) -> int:
        """Gives the busiest a core each, and returns `waited_ns`. Call it while they are stopped."""
        times = self._times()
        recent = {task: ran - self._ran.get(task, 0) for task, (ran, _) in times.items() if task != self.pid}
        self._ran = {task: ran for task, (ran, _) in times.items()}
        busy = sorted((task for task in recent if recent[task] > 0), key=lambda task: -recent[task])
        for core, task in zip(self.cores[1:], busy, strict=False):
            self._bind(task, {core})
        self._bind(self.pid, {self.cores[0]})
        return sum(waited for _, waited in times.values())

    def free(self) -> None:
        """The first thread may run anywhere."""
        self._bind(self.pid, set(self.cores))

    def _bind(self, task: int, cores: set[int]) -> None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(task, cores)

    def _times(self) -> dict[int, tuple[int, int]]:
        """Nanoseconds that each thread ran and waited."""
        found = {}
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{self.pid}/task"):
                with contextlib.suppress(OSError, ValueError), open(f"/proc/{self.pid}/task/{task}/schedstat") as file:
                    ran, waited, _ = file.read().split()
                    found[int(task)] = (int(ran), int(waited))
        return found


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
