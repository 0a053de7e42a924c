"""Building a C++ source into a shared library with g++, without torch's headers, through the cache."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from cuda_agent.runtime.cache import BuildCache, Entry, Key
from cuda_agent.runtime.errors import CompilerMissing, KernelBuildError
from cuda_agent.runtime.messages import cut
from cuda_agent.runtime.signatures import Signatures
from cuda_agent.runtime.sourcetree import SourceTree

COMPILER = "g++"
# Calls between a library's own functions stay inside it: they can be inlined, and no other library's function of the
# same name takes their place. What is defined nowhere is an error of the build, not of the first call.
_BINDING = ("-fno-semantic-interposition", "-Wl,-Bsymbolic", "-Wl,--no-undefined")
FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-std=c++17", "-Wall", *_BINDING)
DIAGNOSTICS = ("-fdiagnostics-color=never", "-fmessage-length=0", "-fno-diagnostics-show-option")
LIBRARY = "kernel.so"
SIGNATURES = "signatures.json"
LOG = "build.log"
TIMEOUT_S = 120.0
OUT = ".build"
_SEARCH_PATHS = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
_CPU_FIELDS = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "flags",
    "Features",
    "CPU implementer",
    "CPU part",
    "isa",
)
_FULL_BYTES = 64 << 20


class Completed(Protocol):
    """How a program ended."""

    @property
    def returncode(self) -> int: ...
    @property
    def stdout(self) -> str: ...
    @property
    def stderr(self) -> str: ...
    @property
    def timed_out(self) -> bool: ...


class Run(Protocol):
    """Runs `argv` in `cwd`, outside of which it need not be able to write."""

    def __call__(
        self, argv: Sequence[str], *, cwd: Path, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Completed: ...


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False


@dataclass(frozen=True)
class Built:
    """A library in the cache. `seconds` is how long this call took, `log` all that the compiler said when it ran."""

    library: Path
    signatures: Signatures | None
    log: str
    seconds: float
    cached: bool


Parser = Callable[[SourceTree, Path, Run], Signatures]
"""Finds the signatures in a source tree, given its library and how to run the preprocessor. Raises KernelBuildError."""


def build(tree: SourceTree, *, cache: BuildCache, run: Run | None = None, parser: Parser | None = None) -> Built:
    """Builds `tree.main`, or finds it in the cache. Raises KernelBuildError, or KernelError without disk space."""
    started = time.monotonic()
    make = _Maker(tree, run or run_program, parser)
    entry, cached = cache.get(Key(content_key(tree), machine_id), make, {"source": tree.main})
    return Built(
        library=entry.folder / LIBRARY,
        signatures=stored_signatures(entry),
        log=(entry.folder / LOG).read_text(encoding="utf-8"),
        seconds=time.monotonic() - started,
        cached=cached,
    )


def content_key(tree: SourceTree) -> str:
    return hashlib.sha256(repr((1, tree.digest, FLAGS)).encode()).hexdigest()


@cache
def machine_id() -> str:
    """Hex digits that name this compiler and processor. Raises CompilerMissing."""
    version = run_program([compiler_path(), "--version"], cwd=Path("/"), timeout_s=30, env={"LC_ALL": "C"}).stdout
    paths = [os.environ.get(name) for name in _SEARCH_PATHS]
    return hashlib.sha256(repr((version, paths, platform.machine(), _processor())).encode()).hexdigest()


def compiler_path() -> str:
    """Where g++ is. Raises CompilerMissing."""
    path = shutil.which(COMPILER)
    if path is None:
        message = f"no C++ compiler: {COMPILER} is not on PATH. Install it (Debian, Ubuntu: apt-get install g++; "
        raise CompilerMissing(message + "Fedora: dnf install gcc-c++; conda: conda install gxx) and try again")
    return path


def _processor() -> str:
    """What `-march=native` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    first = lines[: lines.index("")] if "" in lines else lines
    return "\n".join(line for line in first if line.split("\t")[0].split(":")[0].strip() in _CPU_FIELDS)


@dataclass(frozen=True)
class _Maker:
    """Fills a cache entry: compiles in a folder below it, of which only the results stay."""

    tree: SourceTree
    run: Run
    parser: Parser | None

    def __call__(self, folder: Path) -> None:
        fill_entry(folder, self.tree, lambda scratch: compile_tree(self.tree, scratch, self.run), (LIBRARY,))
        if self.parser is not None:
            write_signatures(folder, self.parser(self.tree, folder / LIBRARY, self.run))


def fill_entry(folder: Path, tree: SourceTree, compile_in: Callable[[Path], str], results: Sequence[str]) -> None:
    """Writes the tree into a scratch folder, compiles there (`compile_in` returns the log) and keeps the log and those
    of `results` that lie in its `.build`."""
    scratch = folder / "scratch"
    scratch.mkdir()
    tree.write(scratch)
    (scratch / OUT).mkdir()
    log = compile_in(scratch)
    for name in results:
        if (scratch / OUT / name).is_file():
            shutil.move(scratch / OUT / name, folder / name)
    shutil.rmtree(scratch)
    (folder / LOG).write_text(log, encoding="utf-8")


def write_signatures(folder: Path, signatures: Signatures) -> None:
    (folder / SIGNATURES).write_text(signatures.to_json(), encoding="utf-8")


def compile_tree(tree: SourceTree, scratch: Path, run: Run, more: Sequence[str] = ()) -> str:
    """Compiles in `scratch`, where the tree and `.build` are, to `.build/kernel.so`, with `more` flags than usual.
    Returns the log; raises KernelBuildError."""
    output = f"{OUT}/{LIBRARY}"
    argv = [compiler_path(), *FLAGS, *more, *DIAGNOSTICS, "-iquote", ".", tree.main, "-o", output]
    ended = run(argv, cwd=scratch, timeout_s=TIMEOUT_S, env={"LC_ALL": "C", "TMPDIR": OUT})
    log = ended.stderr.replace(f"{scratch}/", "")
    if ended.timed_out:
        raise KernelBuildError(f"{tree.main}: the compiler took more than {TIMEOUT_S:.0f} s and was stopped", log)
    if "No space left on device" in log and shutil.disk_usage(scratch).free < _FULL_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    library = scratch / output
    if ended.returncode != 0 or library.is_symlink() or not library.is_file():
        raise KernelBuildError(cut(log, tree.main, tree.files, ended.returncode), log)
    return log


def preprocess(tree: SourceTree, run: Run) -> bytes | None:
    """The text after the preprocessor, with its line markers; None where that fails."""
    with tempfile.TemporaryDirectory(prefix="cuda-agent-") as name:
        scratch = Path(name)
        tree.write(scratch)
        (scratch / OUT).mkdir()
        argv = [compiler_path(), *FLAGS, "-E", "-iquote", ".", tree.main, "-o", f"{OUT}/text"]
        ended = run(argv, cwd=scratch, timeout_s=TIMEOUT_S, env={"LC_ALL": "C", "TMPDIR": OUT})
        text = scratch / OUT / "text"
        return text.read_bytes() if ended.returncode == 0 and text.is_file() else None


def stored_signatures(entry: Entry) -> Signatures | None:
    if SIGNATURES not in entry.manifest["files"]:
        return None
    return Signatures.from_json((entry.folder / SIGNATURES).read_text(encoding="utf-8"))


def run_program(argv: Sequence[str], *, cwd: Path, timeout_s: float, env: Mapping[str, str] | None = None) -> Ended:
    """A `Run` without isolation. The whole process group is killed at the time limit and on an interrupt."""
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timed_out = False
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        _kill(process)
        out, err = process.communicate()
    except BaseException:
        _kill(process)
        process.wait()
        raise
    return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), timed_out)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
