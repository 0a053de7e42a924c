"""The parent's side of the workers: starting zygotes, forking workers from them, and talking to one worker."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import mmap
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_agent.errors import MachineError
from cuda_agent.judge.worker import wire
from cuda_agent.sandbox import linux
from cuda_agent.sandbox.jail import Limits, system_paths

SNAPSHOT_BYTES = 16 << 30
"""Address space only: pages that nobody writes cost nothing."""
OUTPUT_TAIL = 8192
STEADY_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
"""Freed memory stays with the process, on both sides, as it does in a program that has run for a while. Without this
glibc returns large blocks to the kernel now and then, and page faults make the same call take two to four times as long
at random."""
_WITHOUT_DRIVER = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Modules of torch ask whether there is a GPU while they are imported; that must not start the driver before forks."""
START_TIMEOUT_S = 120.0
_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent.parent.parent)
_START = (
    "import sys; sys.path.insert(0, {root!r}); from cuda_agent.judge.worker.zygote import main; "
    "main({fd}, {compiler}, {triton})"
)
_KEPT_VARIABLES = ("OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_HOME", "LD_LIBRARY_PATH", "CXX")

Bytes = npt.NDArray[np.uint8]


class WorkerFault(Exception):
    """A worker failed. `state` is died, timeout, memory, garbage, unreadable, too_large, error or failed."""

    def __init__(self, state: str, **detail: Any) -> None:
        super().__init__(f"{state}: {detail}")
        self.state, self.detail = state, detail


class SharedMemory:
    """A memory file of a fixed size that this process maps and sends to others. It cannot be shrunk by them."""

    def __init__(self, size: int) -> None:
        self.size = max(size, 4096)
        self.descriptor = linux.memory_file(self.size)
        self._map = mmap.mmap(self.descriptor, self.size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.bytes: Bytes = np.frombuffer(self._map, np.uint8)

    def close(self) -> None:
        """The pages go when the last process unmaps them; views of them stay valid until then."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Zygote:
    """A process with torch imported, from which workers are forked in a few milliseconds."""

    def __init__(self, with_compiler: bool = False, with_triton: bool = False) -> None:
        ours, theirs = wire.pair()
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "TMPDIR": "/tmp",
            "PYTHONDONTWRITEBYTECODE": "1",
            **STEADY_MEMORY,
        }
        environment |= {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self.environment = environment
        start = _START.format(root=_PACKAGE_ROOT, fd=theirs.fileno(), compiler=with_compiler, triton=with_triton)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", start],
            cwd="/",
            env=environment | _WITHOUT_DRIVER,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        self._control = ours
        self._lock = threading.Lock()
        self._ready = False
        _ZYGOTES.add(self)

    def wait(self) -> None:
        """Until it has imported everything. Raises MachineError."""
        with self._lock:
            if self._ready:
                return
            self._control.settimeout(START_TIMEOUT_S)
            try:
                wire.receive(self._control)
            except (EOFError, OSError):
                self._process.kill()
                assert self._process.stderr is not None
                why = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()[-1:]
                raise MachineError(f"the judge's worker process does not start: {' '.join(why)}") from None
            self._ready = True

    def spawn(self, order: Mapping[str, Any], channel: socket.socket, output: int) -> None:
        self.wait()
        with self._lock:
            try:
                wire.send(self._control, dict(order), [channel.fileno(), output])
            except OSError as error:
                raise MachineError(f"the judge's worker process is gone: {error}") from None

    def close(self) -> None:
        _ZYGOTES.discard(self)
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


_ZYGOTES: set[Zygote] = set()


@atexit.register
def _close_all() -> None:
    for zygote in list(_ZYGOTES):
        zygote.close()


@dataclass(frozen=True)
class Place:
    """What a worker sees of the host's files."""

    readable: Sequence[str] = ()
    placed: Mapping[str, str] = field(default_factory=dict)
    writable: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    """A worker's reply and, for each tensor it named, the bytes that the keeper found there."""

    reply: dict[str, Any]
    data: list[Bytes]
    seconds: float = 0.0
    waited_s: float = 0.0
    """Time that its threads waited for a core, a call's share of the turn."""
    frozen: bool = True


class Worker:
    """One worker in its sandbox, by way of its keeper. Frozen except while it answers."""

    def __init__(
        self, zygote: Zygote, role: str, place: Place, limits: Limits, isolate: bool = True, device: str = "cpu"
    ) -> None:
        self._channel, theirs = wire.pair()
        read_end, write_end = os.pipe()
        self.output = _Tail(read_end)
        order = {
            "role": role,
            "device": device,
            "isolate": isolate,
            "readable": [*system_paths(), *place.readable],
            "placed": dict(place.placed),
            "writable": dict(place.writable),
            "limits": asdict(limits),
            "env": {**zygote.environment, **place.environment},
        }
        try:
            zygote.spawn(order, theirs, write_end)
        finally:
            theirs.close()
            os.close(write_end)
        self.snapshot = SharedMemory(SNAPSHOT_BYTES)
        self.slots: Any = None
        self.slots_range = (0, 0)
        hello = self._receive(START_TIMEOUT_S)
        if hello["state"] != "ready":
            raise MachineError(f"the sandbox cannot be set up: {hello.get('why')}")
        self.guards: dict[str, bool] = hello["guards"]
        self._settle()

    def _settle(self) -> None:
        self._attach("snapshot", self.snapshot)

    def _attach(self, what: str, memory: Any) -> dict[str, Any]:
        return self._order({"op": "attach", "what": what, "size": memory.size}, 60.0, [memory.descriptor])

    def attach_slots(self, slots: Any) -> None:
        self.slots = slots
        answer = self._attach("slots", slots)
        base = self._checked(answer, copied=False).reply.get("base")
        self.slots_range = (base, base + slots.size) if type(base) is int else (0, 0)

    def attach_vault(self, vault: SharedMemory) -> None:
        self._attach("vault", vault)

    def ask(self, op: str, timeout_s: float = 60.0, **arguments: Any) -> Answer:
        """One request. Raises WorkerFault: state `error` holds what the worker says went wrong in its code."""
        answer = self._order({"op": "ask", "request": {"op": op, **arguments}, "timeout_s": timeout_s}, timeout_s)
        return self._checked(answer)

    def turn(self, calls: list[dict[str, Any]], staged: bool, timeout_s: float) -> list[Answer]:
        """Timed calls, see `Keeper._turn`; each answer has its seconds."""
        order = {"op": "turn", "calls": calls, "staged": staged, "timeout_s": timeout_s}
        answer = self._order(order, timeout_s * len(calls))
        answers = []
        for call, row in zip(calls, answer["calls"], strict=False):
            found = self._checked(row, copied=not staged or call["copy"])
            found.seconds, found.frozen = float(row["seconds"]), bool(answer["frozen"])
            found.waited_s = float(answer["waited_s"]) / len(calls)
            answers.append(found)
        return answers

    def usage(self) -> dict[str, Any]:
        return self._order({"op": "usage"}, 10.0)

    def hang_up(self) -> None:
        """Lets the keeper end everything, without waiting; whoever talks to the worker gets a WorkerFault."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Ends the worker and everything it started; waits until it is so."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            self._channel.settimeout(10.0)
            while self._channel.recv(4096):
                pass
        self._channel.close()
        self.snapshot.close()
        self.output.close()

    def _order(self, order: dict[str, Any], timeout_s: float, descriptors: list[int] | None = None) -> dict[str, Any]:
        try:
            wire.send(self._channel, order, descriptors)
        except OSError:
            raise WorkerFault("died", code=None) from None
        answer = self._receive(timeout_s + 30.0)
        if answer["state"] != "ok":
            raise WorkerFault(answer.pop("state"), **answer)
        return answer

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        self._channel.settimeout(timeout_s)
        try:
            return wire.receive(self._channel)[0]
        except TimeoutError:
            raise WorkerFault("failed", why="the sandbox's keeper does not answer") from None
        except (EOFError, OSError):
            raise WorkerFault("died", code=None) from None

    def _checked(self, answer: dict[str, Any], copied: bool = True) -> Answer:
        if answer["state"] != "ok":
            state = answer.pop("state")
            raise WorkerFault(state, **answer)
        reply = answer["reply"]
        if "error" in reply:
            error = reply["error"] if isinstance(reply["error"], dict) else {}
            raise WorkerFault("error", **{k: v for k, v in error.items() if k in ("kind", "type", "message", "frames")})
        data: list[Bytes] = []
        at = answer["at"]
        for row in reply.get("tensors", []) if copied else []:
            data.append(self.snapshot.bytes[at : at + row["bytes"]])
            at += (row["bytes"] + 63) // 64 * 64
        return Answer(reply, data, frozen=bool(answer.get("frozen", True)))


class _Tail:
    """Reads a pipe to its end and keeps the last part: a worker that prints without end neither blocks nor fills us."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text = b""
        self.total = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError:
                return
            if not data:
                return
            self.total += len(data)
            self._text = (self._text + data)[-OUTPUT_TAIL:]

    def text(self) -> str:
        return self._text.decode("utf-8", "replace")

    def close(self) -> None:
        self._thread.join(2.0)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
