"""How other layers run a program: one call signature, with or without isolation."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from cuda_agent.sandbox.jail import UNPRIVILEGED_ID, Limits, system_paths

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
    """A `Runner` without any isolation; the whole process group is killed at the end and at the time limit.

    What a program prints past the limit is read and dropped, so that one that floods costs no memory here."""
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    out, err = _Collected(process.stdout), _Collected(process.stderr)
    threading.Thread(target=_feed, args=(process.stdin, stdin.encode()), daemon=True).start()
    timed_out = False
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Finished(process.returncode, out.text(), err.text(), timed_out)


class _Collected:
    """The first MAX_OUTPUT_BYTES of a pipe, which is read to its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._data = pipe, bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while block := os.read(self._pipe.fileno(), 1 << 16):
                self._data += block[: MAX_OUTPUT_BYTES - len(self._data)]

    def text(self) -> str:
        # a process that left the group may hold the pipe open for ever
        self._thread.join(1.0)
        return bytes(self._data).decode("utf-8", "replace")


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError), pipe:
        pipe.write(data)


WORKSPACE = "/workspace"
DEFAULT_LIMITS = Limits()
BARE_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
_PACKAGE_ROOT = str(Path(__file__).resolve().parent.parent.parent)
_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from cuda_agent.sandbox.launch import main; main(sys.argv[1:])"
)


@dataclass(frozen=True)
class SandboxedRunner:
    """A `Runner` inside namespaces: no network, a bare environment, a read-only system, only `cwd` (there `/workspace`)
    writable, nothing left running. With `require` it refuses to run where the kernel denies namespaces; else it runs
    with the guards that are left, and without `isolate` with no namespaces at all. `readable` host paths keep their
    path inside, `placed` ones get another; `loopback` is for profilers, see `Jail`."""

    limits: Limits = DEFAULT_LIMITS
    require: bool = False
    readable: tuple[str, ...] = ()
    placed: Mapping[str, str] = field(default_factory=dict)
    isolate: bool = True
    loopback: bool = False

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        timeout_s: float,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        host = str(cwd.resolve())
        config = {
            "writable": {host: WORKSPACE},
            "readable": [*system_paths(), *self.readable],
            "placed": dict(self.placed),
            "limits": asdict(self.limits),
            "require": self.require,
            "isolate": self.isolate,
            "loopback": self.loopback,
            "cwd": WORKSPACE,
            "host_cwd": host,
            "env": {**BARE_ENVIRONMENT, "PATH": _path_inside(), **(env or {})},
        }
        inside = [argument.replace(host, WORKSPACE) for argument in argv]
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, _PACKAGE_ROOT, json.dumps(config), *inside]
        with _owned_by_sandbox(cwd):
            done = run_plain(command, cwd=Path("/"), timeout_s=timeout_s, stdin=stdin)
        return replace(done, returncode=_signal_code(done.returncode))


@functools.cache
def namespaces_available() -> bool:
    """Whether this machine lets this user make the namespaces that a sandbox consists of."""
    with tempfile.TemporaryDirectory() as folder:
        return SandboxedRunner(require=True)(["true"], cwd=Path(folder), timeout_s=30.0).returncode == 0


def _path_inside() -> str:
    """The bare PATH and, first, where this Python lies."""
    return f"{Path(sys.executable).parent}:{BARE_ENVIRONMENT['PATH']}"


def _signal_code(code: int) -> int:
    return 128 - code if 128 < code < 128 + 65 else code


@contextlib.contextmanager
def _owned_by_sandbox(folder: Path) -> Iterator[None]:
    """As root: `folder` belongs to the sandbox's user while it runs there, since that one is not root."""
    if os.geteuid() != 0:
        yield
        return
    give_to(folder, UNPRIVILEGED_ID)
    try:
        yield
    finally:
        give_to(folder, 0)


def give_to(folder: Path, owner: int) -> None:
    """Changes the owner of `folder` and all below it, following no links."""
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            with contextlib.suppress(OSError):
                os.chown(os.path.join(parent, name), owner, owner, follow_symlinks=False)
