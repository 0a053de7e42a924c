"""Where workers come from: zygotes, limits, and the folders that a worker of each role sees."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cuda_agent.judge import device as devices
from cuda_agent.judge.worker.pool import Place, Worker, Zygote
from cuda_agent.sandbox.jail import UNPRIVILEGED_ID, Limits
from cuda_agent.sandbox.runner import give_to, namespaces_available

DEFAULT_LIMITS = Limits()


TASK, SOLUTION = "/task", "/solution"
_SCRATCH = "cuda-agent-"


def _remove_abandoned() -> None:
    """Scratch folders of processes that were killed before they could remove theirs."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*-*"):
        owner = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        with contextlib.suppress(OSError):
            if owner.isdigit() and not Path(f"/proc/{owner}").exists() and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)


def memory_limit() -> int:
    """Three quarters of what the machine has to give, at most 64 GiB."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(64 << 30, available * 3 // 4)


class Workers:
    """Starts workers; owns the zygotes and a scratch folder, both gone after `close`."""

    def __init__(self, isolate: bool = True, limits: Limits | None = None) -> None:
        self.isolate = isolate and namespaces_available()
        self.limits = limits or replace(DEFAULT_LIMITS, memory_bytes=memory_limit())
        _remove_abandoned()
        self.scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-"))
        os.chmod(self.scratch, 0o711)
        self._plain = Zygote(with_triton=devices.has_driver())
        self._compiler: Zygote | None = None
        self._interpreter: Zygote | None = None
        self._lock = threading.Lock()
        self._alive: weakref.WeakSet[Worker] = weakref.WeakSet()

    def warm_compiler(self) -> None:
        """Starts the zygote that has torch.compile imported, without waiting for it."""
        with self._lock:
            if self._compiler is None:
                self._compiler = Zygote(with_compiler=True)

    def reference(self, task_folder: Path, device: str, compile_cache: Path | None = None) -> Worker:
        """A worker with the task; with `compile_cache` also torch.compile, which keeps its builds there."""
        if compile_cache is None:
            return self._start(self._plain, "reference", self._task_place(task_folder), device)
        self.warm_compiler()
        assert self._compiler is not None
        place = self._task_place(task_folder, {str(compile_cache): "/compiled"})
        environment = {"TORCHINDUCTOR_CACHE_DIR": self.inside(compile_cache, "/compiled")}
        place = replace(place, environment={**environment, **place.environment})
        return self._start(self._compiler, "reference", place, device)

    def candidate(
        self,
        folder: Path,
        environment: Mapping[str, str],
        placed: Mapping[str, str],
        device: str,
        writable: Mapping[str, str] | None = None,
    ) -> Worker:
        """A worker with the solution in `folder`; `placed` are the libraries that were built for it."""
        place = Place(placed={str(folder): SOLUTION, **placed}, environment=environment, writable=writable or {})
        interprets = "TRITON_INTERPRET" in environment
        return self._start(self._without_triton() if interprets else self._plain, "candidate", place, device)

    def _without_triton(self) -> Zygote:
        """Whether Triton interprets is settled when it is imported."""
        if not devices.has_driver():
            return self._plain
        with self._lock:
            if self._interpreter is None:
                self._interpreter = Zygote()
            return self._interpreter

    def null(self, device: str) -> Worker:
        return self._start(self._plain, "null", Place(), device)

    def _start(self, zygote: Zygote, role: str, place: Place, device: str) -> Worker:
        if device == "cpu":
            worker = Worker(zygote, role, place, self.limits, self.isolate)
        else:
            from cuda_agent.judge.device_side import DeviceWorker

            place = replace(
                place,
                environment={**devices.environment(device), **place.environment},
                readable=[*place.readable, *devices.files(device)],
            )
            worker = DeviceWorker(zygote, role, place, self.limits, self.isolate, device)
        self._alive.add(worker)
        return worker

    def folder(self, prefix: str, for_sandbox: bool = False) -> Path:
        """A new folder below the scratch; with `for_sandbox` the sandbox's user may write there."""
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=self.scratch))
        os.chmod(path, 0o755)
        if for_sandbox and os.geteuid() == 0 and self.isolate:
            give_to(path, UNPRIVILEGED_ID)
        return path

    def _task_place(self, folder: Path, writable: Mapping[str, str] | None = None) -> Place:
        return Place(placed={str(folder): TASK}, writable=writable or {})

    def inside(self, host: Path, inside: str) -> str:
        """Where workers find the folder that is placed at `inside`: without namespaces, where it lies."""
        return inside if self.isolate else str(host)

    def close(self) -> None:
        """Ends all workers, those in use too: who waits for one gets a WorkerFault."""
        for worker in list(self._alive):
            worker.hang_up()
        for zygote in (self._plain, self._compiler, self._interpreter):
            if zygote is not None:
                zygote.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
