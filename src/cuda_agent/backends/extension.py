"""Builds a torch extension (a Python module in C++) through the cache: with the slim headers, else with torch's own."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import sysconfig
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.backends.certain_errors import certain_errors
from cuda_agent.backends.slim_headers import FLAGS, FOLDER, generated_headers
from cuda_agent.runtime import BuildCache, KernelBuildError, Key
from cuda_agent.runtime.compiler import DIAGNOSTICS, Completed, compiler_path, machine_id, run_program
from cuda_agent.runtime.messages import cut

TIMEOUT_S = 900.0
LIBRARY = "extension.so"
_REFUSED = "slim.log"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


@dataclass(frozen=True)
class Unit:
    """One C++ file: the name that messages call it, its text, and the folder that its quotes look in (or None)."""

    name: str
    text: str
    folder: Path | None = None


@dataclass(frozen=True)
class Extension:
    """What `load_inline` and `load` are given. `shown` maps names in messages to the text that they stand for."""

    name: str
    units: tuple[Unit, ...]
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[Path, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()

    @functools.cached_property
    def local_headers(self) -> Mapping[str, str]:
        """The files that the units include from their own folders and `include_paths`, by absolute path."""
        found: dict[str, str] = {}
        waiting = [(unit.text, unit.folder) for unit in self.units]
        while waiting:
            text, folder = waiting.pop()
            for included in _INCLUDE.findall(text):
                for base in (folder, *self.include_paths):
                    file = None if base is None else Path(os.path.normpath(base / included))
                    if file is not None and str(file) not in found and file.is_file():
                        found[str(file)] = file.read_text(encoding="utf-8", errors="replace")
                        waiting.append((found[str(file)], file.parent))
        return found

    @property
    def text(self) -> str:
        return "\n".join([unit.text for unit in self.units] + list(self.local_headers.values()))

    def content(self, generated: Mapping[str, str] | None) -> str:
        """What the result depends on, as hex digits; `generated` are the slim headers of this build."""
        import torch

        units = [(unit.name, unit.text) for unit in self.units]
        paths = [str(path) for path in self.include_paths]
        flags = [self.cflags, self.ldflags, paths, _flags()]
        slim = None if generated is None else [generated, FLAGS, _slim_digest()]
        parts = [1, self.name, units, sorted(self.local_headers.items()), flags, slim, torch.__version__]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def build_slim(extension: Extension, cache: BuildCache) -> Path | None:
    """The library as built with the slim headers; None where they are not enough (which the cache remembers).

    Raises KernelBuildError for errors that torch's own headers would not mend.
    """
    generated = generated_headers(extension.text, torch_include())
    if generated is None:
        return None

    def make(folder: Path) -> None:
        try:
            _build(extension, folder, generated)
        except KernelBuildError as error:
            shown = {name: text.encode() for name, text in extension.shown}
            certain = certain_errors(error.log, extension.name, shown, [torch_include(), _python_include()])
            if certain is not None:
                raise KernelBuildError(certain, error.log) from None
            (folder / _REFUSED).write_text(error.log, encoding="utf-8")

    entry, _ = cache.get(Key(extension.content(generated), machine_id), make, {"source": extension.name})
    library = entry.folder / LIBRARY
    return library if library.is_file() else None


def build_full(extension: Extension, cache: BuildCache) -> Path:
    """The library as built with torch's own headers. Raises KernelBuildError."""
    key = Key(extension.content(None), machine_id)
    entry, _ = cache.get(key, lambda folder: _build(extension, folder, None), {"source": extension.name})
    return entry.folder / LIBRARY


def _build(extension: Extension, folder: Path, generated: Mapping[str, str] | None) -> None:
    """Builds in a folder below `folder`, of which only the library stays."""
    scratch = folder / "scratch"
    (scratch / "headers/cuda_agent").mkdir(parents=True)
    for name, text in (generated or {}).items():
        (scratch / "headers" / name).write_text(text, encoding="utf-8")
    try:
        _compile(extension, scratch, slim=generated is not None)
        shutil.move(scratch / LIBRARY, folder / LIBRARY)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compile(extension: Extension, scratch: Path, slim: bool) -> None:
    """Compiles the units side by side and links them. Raises KernelBuildError."""
    system = [torch_include(), torch_include() / "torch/csrc/api/include", _python_include()]
    if slim:
        system = [scratch / "headers", FOLDER, *system]
    includes = [f"-I{path}" for path in extension.include_paths] + [f"-isystem{path}" for path in system]
    commands = []
    for index, unit in enumerate(extension.units):
        (scratch / f"{index}.cpp").write_text(f'#line 1 "{unit.name}"\n{unit.text}', encoding="utf-8")
        quotes = [] if unit.folder is None else ["-iquote", str(unit.folder)]
        defined = [f"-DTORCH_EXTENSION_NAME={extension.name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
        argv = [*defined, *quotes, *includes, *_flags(), *(FLAGS if slim else ()), *extension.cflags, *DIAGNOSTICS]
        commands.append([compiler_path(), *argv, "-c", f"{index}.cpp", "-o", f"{index}.o"])
    for ended in _side_by_side(scratch, commands):
        _check(extension, ended)
    objects = [f"{index}.o" for index in range(len(commands))]
    link = ["-shared", *objects, *extension.ldflags, f"-L{torch_include().parent / 'lib'}", *_LIBRARIES]
    _check(extension, _run(scratch, [compiler_path(), *link, "-o", LIBRARY]))


_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")


def _run(scratch: Path, argv: list[str]) -> Completed:
    return run_program(argv, cwd=scratch, timeout_s=TIMEOUT_S, env={"LC_ALL": "C", "TMPDIR": "."})


def _side_by_side(scratch: Path, commands: list[list[str]]) -> list[Completed]:
    workers = min(len(commands), len(os.sched_getaffinity(0)))
    if workers < 2:
        return [_run(scratch, command) for command in commands]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(functools.partial(_run, scratch), commands))


def _check(extension: Extension, ended: Completed) -> None:
    if ended.timed_out:
        raise KernelBuildError(f"{extension.name}: the compiler took more than {TIMEOUT_S:.0f} s and was stopped")
    if ended.returncode != 0:
        shown = {name: text.encode() for name, text in extension.shown}
        raise KernelBuildError(cut(ended.stderr, extension.name, shown, ended.returncode), ended.stderr)


@functools.cache
def torch_include() -> Path:
    import torch

    return Path(torch.__file__).parent / "include"


def _python_include() -> Path:
    return Path(sysconfig.get_path("include"))


@functools.cache
def _flags() -> tuple[str, ...]:
    """The flags that torch's own builder gives, which depend on its version."""
    import torch

    builder = (torch_include().parent / "utils/cpp_extension.py").read_text(encoding="utf-8")
    standard = "-std=c++20" if "'-std=c++20'" in builder else "-std=c++17"
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    return ("-fPIC", standard, f"-D_GLIBCXX_USE_CXX11_ABI={abi}")


@functools.cache
def _slim_digest() -> str:
    files = sorted(FOLDER.rglob("*.h"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
