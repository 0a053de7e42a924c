"""GCC's AddressSanitizer for C++ kernels on the CPU: the solution's kernels are built once more with it, and one call
runs with its memory allocator, so that an access outside of a tensor or an array is found at its line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from cuda_agent.errors import MachineError
from cuda_agent.judge.builds import BuiltSolution
from cuda_agent.profiling.findings import Finding, Looked
from cuda_agent.profiling.process import Ran, Tool
from cuda_agent.runtime import read_tree
from cuda_agent.runtime.cache import MANIFEST, write_manifest
from cuda_agent.runtime.compiler import LIBRARY, OUT, compile_tree, compiler_path, content_key
from cuda_agent.sandbox import SandboxedRunner

NAME = "AddressSanitizer"
TIMEOUT_S = 120.0
FLAGS = ("-fsanitize=address", "-fno-omit-frame-pointer", "-g", "-O1")
_SUFFIXES = (".cpp", ".cc", ".cxx")
_OPTIONS = "detect_leaks=0:abort_on_error=0:exitcode=99:allocator_may_return_null=1:detect_odr_violation=0"
_ERROR = re.compile(r"ERROR: AddressSanitizer: (\S+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_FRAME = re.compile(r"^\s+#\d+ 0x[0-9a-f]+ in (.+?) (\S+:\d+)(?::\d+)?$", re.MULTILINE)
_REGION = re.compile(r"is located (\d+ bytes (?:after|before|inside of|to the (?:right|left) of)) (\d+)-byte region")


def tool() -> Tool:
    """How the driver is started with it. Raises MachineError where GCC has no such library."""
    found = subprocess.run([compiler_path(), "-print-file-name=libasan.so"], capture_output=True, text=True, timeout=30)
    library = os.path.realpath(found.stdout.strip())
    if not os.path.isabs(found.stdout.strip()) or not os.path.isfile(library):
        raise MachineError("g++ has no AddressSanitizer here (Debian, Ubuntu: it comes with the package libasan)")
    return Tool(reserving=True, environment={"LD_PRELOAD": library, "ASAN_OPTIONS": _OPTIONS})


def instrumented(built: BuiltSolution, kernels: list[str], folder: Path) -> dict[str, str]:
    """What the driver's sandbox gets in the place of `built.entries`: the same, with C++ kernels built with the
    sanitizer, in `folder`. Raises KernelError."""
    entries = dict(built.entries)
    for kernel in kernels:
        if not kernel.endswith(_SUFFIXES):
            continue
        tree = read_tree(built.folder / kernel, built.folder)
        usual = next(path for path in entries if Path(path).name.startswith(content_key(tree)[:16]))
        copy = folder / Path(usual).name
        shutil.copytree(usual, copy)
        scratch = folder / "scratch"
        tree.write(scratch)
        (scratch / OUT).mkdir(parents=True)
        compile_tree(tree, scratch, SandboxedRunner(), FLAGS)
        (copy / MANIFEST).unlink()
        (copy / LIBRARY).unlink()
        shutil.move(scratch / OUT / LIBRARY, copy / LIBRARY)
        shutil.rmtree(scratch)
        write_manifest(copy, {"key": copy.name, "source": kernel})
        entries[str(copy)] = entries.pop(usual)
    return entries


def looked(ran: Ran) -> Looked:
    finding = parse(ran.finished.stderr)
    if finding is not None:
        return Looked(NAME, [finding])
    if ran.finished.timed_out:
        return Looked(NAME, why=f"it did not come to its end in {TIMEOUT_S:.0f} s")
    if ran.result is None:
        last = (ran.finished.stderr.strip().splitlines() or [f"exit code {ran.finished.returncode}"])[-1]
        return Looked(NAME, why=last)
    return Looked(NAME)


def parse(text: str) -> Finding | None:
    """The first error, which ends the process."""
    error = _ERROR.search(text)
    if error is None:
        return None
    report = text[error.start() :]
    access, region = _ACCESS.search(report), _REGION.search(report)
    frame = next((f for f in _FRAME.finditer(report) if not f[2].startswith(("../", "/usr/", "<"))), None)
    what = f"invalid {access[1].lower()} of size {access[2]} bytes" if access else ""
    return Finding(
        "memory",
        f"{what}: {error[1]}" if what else error[1],
        re.sub(r"(\._omp_fn\.\d+|\(.*)$", "", frame[1]) if frame else "unknown function",
        frame[2] if frame else "",
        f"{region[1]} a region of {region[2]} bytes" if region else "",
    )
