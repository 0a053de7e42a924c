"""Building a CUDA source: device code alone with NVRTC (about 50 ms), host code too with nvcc (about a second).

Either way without torch's headers, for one architecture, into the cache. What NVRTC cannot build because a header is
missing or a function runs on the host goes to nvcc, where there is one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cuda_agent.runtime import nvrtc
from cuda_agent.runtime.cache import BuildCache, Key
from cuda_agent.runtime.compiler import (
    LIBRARY,
    LOG,
    OUT,
    TIMEOUT_S,
    Built,
    Completed,
    Parser,
    Run,
    fill_entry,
    run_program,
    stored_signatures,
    write_signatures,
)
from cuda_agent.runtime.cuda_device import architecture
from cuda_agent.runtime.errors import CompilerMissing, KernelBuildError
from cuda_agent.runtime.messages import cut
from cuda_agent.runtime.nvcc_messages import cut_nvcc
from cuda_agent.runtime.sourcetree import SourceTree

CUDA_SUFFIXES = (".cu",)
CUBIN = "kernel.cubin"
NVCC_FLAGS = ("-O3", "-std=c++17", "-lineinfo", "-Xptxas", "-v")
HOST_FLAGS = ("-Xcompiler", "-fPIC", "-shared", "-cudart", "static", "--keep", "--keep-dir", OUT)
_STAND_INS = Path(__file__).with_name("rtc")
_LAST_ERROR = "cuda_agent_last_error.c"
# Linked to each library, so that a launch that failed inside it is found when the function returns.
_LAST_ERROR_TEXT = """int cudaGetLastError(void);
const char* cudaGetErrorString(int);
const char* cuda_agent_last_error(void) {
    int code = cudaGetLastError();
    return code ? cudaGetErrorString(code) : 0;
}
"""
_HOST = re.compile(
    rb"<<<|\bcudaStream_t\b|__host__(?!\s*__device__)(?<!__device__ __host__)|"
    rb"#\s*include\s*[<\"](?:cublas|cudnn|cufft|curand\.h|cusparse|cusolver|cutlass|cute|thrust|cub/|torch|ATen|c10|vector>|iostream>)"
)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FOR_NVCC = ("is considered a host function", "cannot open source file", "could not open source file")
_LIBRARIES = {b"cublasLt": "cublasLt", b"cublas": "cublas", b"cudnn": "cudnn", b"cufft": "cufft", b"curand": "curand"}


def build_cuda(tree: SourceTree, *, cache: BuildCache, run: Run | None = None, parser: Parser | None = None) -> Built:
    """Builds `tree.main`, or finds it in the cache. `Built.library` is a cubin, or with host code a shared library that
    has the cubin beside it. Raises KernelBuildError, or KernelError without disk space."""
    started = time.monotonic()
    arch = architecture()
    make = _Maker(tree, arch, run or run_program, parser)
    entry, cached = cache.get(Key(_content_key(tree, arch), compilers_id), make, {"source": tree.main, "arch": arch})
    found = entry.folder / LIBRARY
    return Built(
        library=found if found.is_file() else entry.folder / CUBIN,
        signatures=stored_signatures(entry),
        log=(entry.folder / LOG).read_text(encoding="utf-8"),
        seconds=time.monotonic() - started,
        cached=cached,
    )


def _content_key(tree: SourceTree, arch: str) -> str:
    return hashlib.sha256(repr((1, tree.digest, NVCC_FLAGS, HOST_FLAGS, arch)).encode()).hexdigest()


@cache
def compilers_id() -> str:
    """Hex digits that name the compilers that there are."""
    versions = []
    for name in ("cuda-core", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            versions.append(importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            versions.append("")
    nvcc = nvcc_path()
    said = run_program([nvcc, "--version"], cwd=Path("/"), timeout_s=30).stdout if nvcc else ""
    return hashlib.sha256(repr((versions, said)).encode()).hexdigest()


@cache
def nvcc_path() -> str | None:
    """nvcc in $CUDA_HOME, on PATH, or where toolkits are usually installed."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    places = [str(Path(home, "bin")) for home in homes if home] + [os.environ.get("PATH", ""), "/usr/local/cuda/bin"]
    return shutil.which("nvcc", path=os.pathsep.join(places))


def header_folders() -> list[str]:
    """Where CUDA's headers are (`cuda_fp16.h`, `mma.h`, …): the toolkit's, else those of Python packages."""
    nvcc = nvcc_path()
    toolkits = [Path(os.path.realpath(nvcc)).parent.parent / "include"] if nvcc else []
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    toolkits += [Path(home, "include") for home in homes if home]
    packages = [folder for place in sys.path for folder in Path(place).glob("nvidia/*/include")]
    found = [str(folder) for folder in [*toolkits, *packages] if (folder / "cuda_fp16.h").is_file()]
    return found[:1]


@dataclass(frozen=True)
class _Maker:
    """Fills a cache entry: compiles in a folder below it, of which only the results stay."""

    tree: SourceTree
    arch: str
    run: Run
    parser: Parser | None

    def __call__(self, folder: Path) -> None:
        fill_entry(folder, self.tree, self._compile, (CUBIN, LIBRARY))
        if self.parser is not None:
            library = folder / LIBRARY
            built = library if library.is_file() else folder / CUBIN
            write_signatures(folder, self.parser(self.tree, built, self.run))

    @property
    def _text(self) -> bytes:
        return b"\n".join(self.tree.files.values())

    def _compile(self, scratch: Path) -> str:
        """Compiles in `scratch`, where the tree and `.build` are. Returns the log."""
        host = _HOST.search(_COMMENT.sub(b" ", self._text)) is not None
        missing = ""
        if not host:
            done = self._nvrtc(scratch)
            log = done.stderr.replace(f"{scratch}/", "")
            if done.returncode == 0:
                return log
            if done.timed_out:
                raise KernelBuildError(f"{self.tree.main}: NVRTC took more than {TIMEOUT_S:.0f} s and was stopped", log)
            missing = log if done.returncode == nvrtc.MISSING else ""
            if not missing and not any(words in log for words in _FOR_NVCC):
                raise KernelBuildError(cut_nvcc(log, self.tree.main, self.tree.files) or log[-2000:], log)
            if nvcc_path() is None and not missing:
                message = cut_nvcc(log, self.tree.main, self.tree.files) or log[-2000:]
                raise KernelBuildError(f"{message}\nnvcc, which might build it, is not installed", log)
        return self._nvcc(scratch, host, missing)

    def _nvrtc(self, scratch: Path) -> Completed:
        folders = [".", str(Path(self.tree.main).parent), str(_STAND_INS), *header_folders()]
        program = [sys.executable, "-I", nvrtc.__file__]
        return self.run(
            [*program, self.tree.main, f"{OUT}/{CUBIN}", self.arch, *folders], cwd=scratch, timeout_s=TIMEOUT_S
        )

    def _nvcc(self, scratch: Path, host: bool, missing: str) -> str:
        nvcc = nvcc_path()
        if nvcc is None:
            raise CompilerMissing(
                "no CUDA compiler: nvcc is not on PATH"
                + (" (source files with host code need it)" if host else f", and {missing.strip().splitlines()[-1]}")
                + ". Install cuda-core (pip install 'cuda-agent[cuda]') for device code, the CUDA toolkit for host code"
            )
        argv = [nvcc, *NVCC_FLAGS, f"-arch={self.arch}", "-I", ".", self.tree.main]
        wanted = scratch / OUT / (LIBRARY if host else CUBIN)
        if host:
            (scratch / OUT / _LAST_ERROR).write_text(_LAST_ERROR_TEXT, encoding="utf-8")
            argv += [*HOST_FLAGS, f"{OUT}/{_LAST_ERROR}", *self._libraries()]
        argv += ["-o", f"{OUT}/{wanted.name}"] if host else ["-cubin", "-o", f"{OUT}/{wanted.name}"]
        done = self.run(argv, cwd=scratch, timeout_s=TIMEOUT_S, env={"LC_ALL": "C", "TMPDIR": OUT})
        log = (done.stdout + done.stderr).replace(f"{scratch}/", "")
        if done.timed_out:
            raise KernelBuildError(f"{self.tree.main}: nvcc took more than {TIMEOUT_S:.0f} s and was stopped", log)
        if done.returncode != 0 or wanted.is_symlink() or not wanted.is_file():
            message = cut_nvcc(log, self.tree.main, self.tree.files)
            raise KernelBuildError(message or cut(log, self.tree.main, self.tree.files, done.returncode), log)
        if host:
            self._keep_cubin(scratch)
        return log

    def _libraries(self) -> list[str]:
        """The vendor's libraries whose headers are included; torch has them loaded when the kernels are."""
        names = _LIBRARIES.items()
        return [f"-l{name}" for word, name in names if re.search(rb"[<\"]" + word + rb"[\w.]*h", self._text)]

    def _keep_cubin(self, scratch: Path) -> None:
        """nvcc leaves the cubin that it put into the library."""
        found: Sequence[Path] = sorted((scratch / OUT).glob(f"{Path(self.tree.main).stem}*.cubin"))
        if found and not found[0].is_symlink():
            shutil.move(found[0], scratch / OUT / CUBIN)
