"""The parent's hand inside a worker's PID namespace: trusted, forked before any untrusted code exists there.

It is the namespace's first process. It alone talks to the worker; it freezes and wakes all that the worker may have
started, reads outputs out of the worker's memory, and keeps the clock of a call. Everything dies with it, and it
dies with its socket to the parent. The worker cannot reach it: another address space, not dumpable, ptrace denied.

    parent ⇄ keeper ⇄ worker            what it is told                      what it does
                                        ask       request → reply, outputs copied into the snapshot
                                        turn      timed calls: wake, call, freeze or copy, stop the clock;
                                                  on a device the parent keeps the clock and copies
                                        stop, wake, usage, attach
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from cuda_agent.judge.worker import wire
from cuda_agent.sandbox import jail, linux
from cuda_agent.sandbox.processes import Crowd, Threads

FREEZE_PATIENCE_S = 2.0
WATCH_EVERY_S = 0.1


class WorkerEnded(Exception):
    """The worker is gone or out of reach; the argument is the message for the parent."""


class Mapping:
    """A memory file shared with the parent, by address."""

    def __init__(self, descriptor: int) -> None:
        self.size = os.fstat(descriptor).st_size
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, max(self.size, 1))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))


class Keeper:
    def __init__(
        self, channel: socket.socket, worker: socket.socket, pid: int, crowd: Crowd, memory: int, on_device: bool
    ) -> None:
        self.channel, self.worker, self.pid, self.crowd, self.memory = channel, worker, pid, crowd, memory
        self.on_device = on_device
        self.snapshot: Mapping | None = None
        self.vault: Mapping | None = None
        self.slots: Mapping | None = None
        self.frozen = False
        self.threads = Threads(pid)

    def serve(self) -> NoReturn:
        while True:
            try:
                order, descriptors = wire.receive(self.channel, descriptors=4)
            except EOFError:
                self._leave()
            try:
                reply = self._obey(order, descriptors)
            except WorkerEnded as ended:
                reply = ended.args[0]
            wire.send(self.channel, reply)

    def _leave(self) -> NoReturn:
        self.crowd.kill()
        os._exit(0)

    def _obey(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        match order["op"]:
            case "attach":
                return self._attach(order["what"], order["size"], descriptors[0])
            case "ask":
                self.wake()
                reply = self._exchange(order["request"], order["timeout_s"])
                frozen = self.stop()
                return self._answer(reply, copy=not self.on_device, at=0) | {"frozen": frozen}
            case "turn" if self.on_device:
                self.threads.place()  # both sides' calls begin on the same core
                self.wake()
                self.threads.free()
                reply = self._exchange(order["request"], order["timeout_s"])
                return self._answer(reply, copy=False, at=0)
            case "turn":
                return self._turn(order)
            case "stop":
                return {"state": "ok", "frozen": self.stop()}
            case "wake":
                self.wake()
                return {"state": "ok"}
            case "usage":
                return {"state": "ok", "bytes": self.crowd.resident_bytes(), "processes": len(self.crowd.pids())}
        return {"state": "failed", "why": f"unknown order {order['op']!r}"}

    def _attach(self, what: str, size: int, descriptor: int) -> dict[str, Any]:
        if self.on_device:
            self.wake()
            wire.send(self.worker, {"op": "attach", "what": what, "size": size}, [descriptor])
            os.close(descriptor)
            reply = self._reply(60.0)
            self.stop()
            return self._answer(reply, copy=False, at=0)
        setattr(self, what, Mapping(descriptor))
        if what != "slots":
            return {"state": "ok"}
        self.wake()
        wire.send(self.worker, {"op": "attach"}, [descriptor])
        return self._answer(self._reply(30.0), copy=False, at=0)

    # -- one call ---------------------------------------------------------------------------------------------------

    def _turn(self, order: dict[str, Any]) -> dict[str, Any]:
        """Timed calls of the worker, from frozen to frozen.

        `staged`: inputs lie in the slot already, one call: the clock runs from the wake-up until everything is
        frozen, when no byte of the outputs can change any more. Else inputs go from the vault into the slot and
        outputs into the snapshot within the clock, many calls without a freeze between them.
        """
        if not self.frozen:
            self.stop()
        staged = order["staged"]
        calls, at = [], 0
        waited = self.threads.place()
        if not staged:
            self.wake()
            self.threads.free()
        for call in order["calls"]:
            timed = self._staged_call if staged else self._copied_call
            seconds, reply = timed(call, order["timeout_s"], at)
            row = self._answer(reply, copy=staged and call["copy"], at=at)
            row["seconds"] = seconds
            calls.append(row)
            at = row.get("end", at)
            if row["state"] != "ok":
                break
        frozen = self.stop()
        return {"state": "ok", "calls": calls, "frozen": frozen, "waited_s": (self.threads.waited_ns() - waited) * 1e-9}

    def _staged_call(self, call: dict[str, Any], timeout_s: float, at: int) -> tuple[float, dict[str, Any]]:
        wire.send(self.worker, call["request"])
        start = time.perf_counter()
        self.wake()
        self.threads.free()
        reply = self._reply(timeout_s)
        self.stop()
        return time.perf_counter() - start, reply

    def _copied_call(self, call: dict[str, Any], timeout_s: float, at: int) -> tuple[float, dict[str, Any]]:
        assert self.vault is not None and self.slots is not None
        start = time.perf_counter()
        ctypes.memmove(self.slots.address + call["to"], self.vault.address + call["from"], call["bytes"])
        wire.send(self.worker, call["request"])
        reply = self._reply(timeout_s)
        self._copy_outputs(reply, at)
        return time.perf_counter() - start, reply

    # -- talking to the worker --------------------------------------------------------------------------------------

    def _exchange(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        try:
            wire.send(self.worker, request)
        except OSError:
            self._ended()
        return self._reply(timeout_s)

    def _reply(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while True:
            pause = min(WATCH_EVERY_S, max(0.0, deadline - time.monotonic()))
            ready = select.select([self.worker, self.channel], [], [], pause)[0]
            if self.worker in ready:
                break
            if self.channel in ready:  # the parent says nothing during a call: it is gone
                self._leave()
            if time.monotonic() >= deadline:
                raise WorkerEnded({"state": "timeout", "seconds": timeout_s})
            if self.crowd.resident_bytes() > self.memory:
                self.crowd.kill()
                raise WorkerEnded({"state": "memory", "bytes": self.memory})
        try:
            return wire.receive(self.worker)[0]
        except (EOFError, OSError):
            self._ended()
        except ValueError as error:
            raise WorkerEnded({"state": "garbage", "why": str(error)[:200]}) from None

    def _ended(self) -> NoReturn:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                break
            if pid:
                raise WorkerEnded({"state": "died", "code": os.waitstatus_to_exitcode(status)})
            time.sleep(0.01)
        raise WorkerEnded({"state": "died", "code": None})

    def _answer(self, reply: dict[str, Any], copy: bool, at: int) -> dict[str, Any]:
        answer: dict[str, Any] = {"state": "ok", "reply": reply, "at": at}
        if copy:
            self._copy_outputs(reply, at)
        answer["end"] = at + _copied_bytes(reply)
        return answer

    def _copy_outputs(self, reply: dict[str, Any], at: int) -> None:
        """The claimed outputs' bytes, one after the other at multiples of 64, from the worker into the snapshot."""
        for row in _tensors(reply):
            address, length = row["address"], row["bytes"]
            if self.snapshot is None or at + length > self.snapshot.size:
                raise WorkerEnded({"state": "too_large", "bytes": at + length})
            if length and linux.read_memory(self.pid, address, self.snapshot.address + at, length) != length:
                raise WorkerEnded({"state": "unreadable", "bytes": length})
            at += _padded(length)

    # -- freezing ---------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        if self.frozen:
            self.crowd.signal(signal.SIGCONT)
            self.frozen = False

    def stop(self) -> bool:
        """Stops every process of the sandbox; False if one still runs after a while."""
        if self.frozen:
            return True
        deadline = time.monotonic() + FREEZE_PATIENCE_S
        wait = os.WUNTRACED
        while True:
            self.crowd.signal(signal.SIGSTOP)
            pid, status = os.waitpid(self.pid, wait)
            wait = os.WUNTRACED | os.WNOHANG  # it says once that it has stopped
            if pid and not os.WIFSTOPPED(status):
                raise WorkerEnded({"state": "died", "code": os.waitstatus_to_exitcode(status)})
            others = [p for p in self.crowd.pids() if p != self.pid]
            if not others or not self.crowd.running():
                self.frozen = True
                return True
            if time.monotonic() > deadline:
                return False


def _tensors(reply: dict[str, Any]) -> list[dict[str, int]]:
    """The tensor rows of a reply, checked: a worker may send anything."""
    rows = reply.get("tensors", [])
    if not isinstance(rows, list) or len(rows) > 4096:
        raise WorkerEnded({"state": "garbage", "why": "no list of tensors"})
    for row in rows:
        good = isinstance(row, dict) and all(type(row.get(k)) is int and row[k] >= 0 for k in ("address", "bytes"))
        if not good or row["address"] >= 1 << 64 or row["bytes"] > 1 << 40:
            raise WorkerEnded({"state": "garbage", "why": "no tensor"})
    return rows


def _padded(length: int) -> int:
    return (length + 63) // 64 * 64


def _copied_bytes(reply: dict[str, Any]) -> int:
    return sum(_padded(row["bytes"]) for row in _tensors(reply))


def main(
    order: dict[str, Any], limits: jail.Limits, guards: dict[str, bool], channel: socket.socket, output: int
) -> NoReturn:
    """In the first process of the namespace: starts the worker, gives up every right, serves the parent."""
    isolated = guards.get("namespaces", False)
    if isolated:
        jail.settle()
    else:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    ours, theirs = wire.pair()
    pid = os.fork()
    if pid == 0:
        _become_worker(order, limits, guards, theirs, output)
    theirs.close()
    os.close(output)
    if isolated:
        jail.drop_privileges()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    keeper = Keeper(channel, ours, pid, Crowd(isolated), limits.memory_bytes, order["device"] != "cpu")
    try:
        hello, _ = wire.receive(ours)
    except (EOFError, ValueError, OSError):
        hello = {"guards": {}}
    wire.send(channel, {"state": "ready", "pid": pid, "guards": hello["guards"]})
    keeper.serve()


def _become_worker(
    order: dict[str, Any], limits: jail.Limits, guards: dict[str, bool], channel: socket.socket, output: int
) -> NoReturn:
    try:
        null = os.open("/dev/null", os.O_RDWR)
        descriptor = os.dup2(channel.detach(), 3)
        for target, source in ((0, null), (1, output), (2, output)):
            os.dup2(source, target)
        os.closerange(4, 4096)
        os.environ.clear()
        os.environ.update(order["env"])
        os.chdir("/tmp")
        isolated = guards.get("namespaces", False)
        guards = {"namespaces": False, "network": False, "files": False} | guards | jail.confine(limits, isolated)
        worker = socket.socket(fileno=descriptor)
        wire.send(worker, {"guards": guards})
        from cuda_agent.judge.worker import harness

        harness.main(order["role"], worker, order["device"])
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    os._exit(1)
