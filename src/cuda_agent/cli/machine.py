"""What `doctor` looks at. Every look is independent of the others; one that fails says so and stops nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_agent.errors import CudaAgentError, MachineError


@dataclass(frozen=True)
class Finding:
    """`missing` is what the main job needs; `optional` is what it does without."""

    name: str
    state: Literal["ok", "missing", "optional"]
    value: str
    hint: str = ""
    """How to get what is missing."""


_KERNEL_SETTINGS = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
)
"""(file, value that denies namespaces, what to set)"""


def examine(store: str | None) -> list[Finding]:
    looks: list[Callable[[], Finding]] = [
        python,
        torch,
        compiler,
        processor,
        memory,
        sandbox,
        cache,
        lambda: store_at(store),
        scratch,
        postgresql,
        gpu,
        nvcc,
        triton,
    ]
    return [_guarded(look) for look in looks]


def _guarded(look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        name = getattr(look, "__name__", "store")
        return Finding(name, "optional", f"cannot be looked at: {error}")


def python() -> Finding:
    value = f"{platform.python_version()}, {sys.executable}"
    return Finding("python", "ok" if sys.version_info >= (3, 11) else "missing", value, "")


def torch() -> Finding:
    """Imports it in another process: a broken installation may crash."""
    script = "import torch; print(torch.__version__, torch.version.cuda or 'no', torch.get_num_threads(), sep='|')"
    done = _output([sys.executable, "-c", script], timeout=120)
    if done is None or done.count("|") != 2:
        return Finding("torch", "missing", "cannot be imported", "make install, or: pip install torch")
    version, cuda, threads = done.strip().split("|")
    build = "CPU build" if cuda == "no" else f"CUDA {cuda} build"
    return Finding("torch", "ok", f"{version}, {build}, {threads} threads")


def compiler() -> Finding:
    """Builds what the backend builds: a shared library with OpenMP for this processor."""
    hint = "Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS is not supported"
    found = shutil.which("g++")
    if found is None:
        return Finding("g++", "missing", "not on PATH", hint)
    version = (_output([found, "-dumpfullversion", "-dumpversion"]) or "?").strip()
    source = '#include <cmath>\n#include <omp.h>\nextern "C" int f() { return omp_get_max_threads(); }\n'
    with tempfile.TemporaryDirectory() as folder:
        argv = [found, "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-x", "c++", "-", "-o", f"{folder}/x.so"]
        done = subprocess.run(argv, input=source, capture_output=True, text=True, timeout=120)
    if done.returncode:
        reason = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        return Finding("g++", "missing", f"{version}, but it does not build a library with OpenMP: {reason}", hint)
    return Finding("g++", "ok", f"{version}, {found}, builds with OpenMP")


def processor() -> Finding:
    usable, all_of_them = len(os.sched_getaffinity(0)), os.cpu_count() or 0
    cores = f"{usable} core{'s' * (usable != 1)}" + (f" of {all_of_them}" if usable != all_of_them else "")
    known = ("sse4_2", "avx2", "fma", "f16c", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")
    fields = dict(_fields(Path("/proc/cpuinfo").read_text()))
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    shown = " ".join(flag for flag in known if flag in flags)
    model = fields.get("model name", platform.machine())
    load = os.getloadavg()[0]
    hint = "" if load < 0.5 * usable else "times are measured best on an idle machine"
    return Finding("processor", "ok", f"{model}, {cores}, {shown}, load {load:.1f}", hint)


def memory() -> Finding:
    fields = dict(_fields(Path("/proc/meminfo").read_text()))
    total, available = (int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    capped = f", limited to {_gib(int(text))}" if text.isdigit() else ""
    hint = "" if available > 2 << 30 else "torch and two workers need about 2 GiB"
    return Finding("memory", "ok", f"{_gib(available)} free of {_gib(total)}{capped}", hint)


def _probe_guards() -> dict[str, bool]:
    """The guards that a sandbox gets here, tried out in a process of its own."""
    script = (
        "import json, os; from cuda_agent.sandbox import jail\n"
        "guards = jail.enter(jail.Jail(readable=jail.system_paths()))\n"
        "if os.fork(): os._exit(os.waitstatus_to_exitcode(os.wait()[1]) % 256)\n"
        "if guards['namespaces']: jail.settle()\n"
        "guards |= jail.confine(jail.Limits()); os.write(1, json.dumps(guards).encode()); os._exit(0)\n"
    )
    guards: dict[str, bool] = json.loads(_output([sys.executable, "-c", script]) or "{}")
    return guards


def sandbox() -> Finding:
    guards = _probe_guards()
    active = ", ".join(name for name, is_active in guards.items() if is_active) or "none"
    missing = [name for name, is_active in guards.items() if not is_active]
    if guards and not missing:
        return Finding("sandbox", "ok", f"active guards: {active}")
    value = f"active guards: {active}; missing: {', '.join(missing) or 'all'}; verdicts carry a flag"
    if missing == ["seccomp"]:
        return Finding("sandbox", "optional", value, "a Linux kernel with CONFIG_SECCOMP_FILTER, on x86-64 or ARM")
    how = [f"sudo sysctl -w {setting}" for file, bad, setting in _KERNEL_SETTINGS if _first_line(file) == bad]
    how = how or ["in a container: --privileged, or --security-opt seccomp=unconfined and --cap-add SYS_ADMIN"]
    return Finding("sandbox", "optional", value, "; ".join(how))


def cache() -> Finding:
    from cuda_agent.runtime.cache import BuildCache

    root = BuildCache.from_environment().root
    if reason := _not_writable(root):
        return Finding("build cache", "optional", f"{root}: {reason}; builds are not kept", "set CUDA_AGENT_CACHE")
    size = sum(entry.bytes for entry in BuildCache(root).entries())
    free = shutil.disk_usage(_existing(root)).free
    return Finding("build cache", "ok", f"{root}, {size / 1e6:.1f} MB used, {_gib(free)} free on the disk")


def store_at(url: str | None) -> Finding:
    from cuda_agent.store import Store

    try:
        with Store(url) as store:
            return Finding("store", "ok", f"{store}, {store.count_verdicts()} verdicts")
    except CudaAgentError as error:
        return Finding("store", "missing", str(error))


def scratch() -> Finding:
    folder = Path(tempfile.gettempdir())
    if reason := _not_writable(folder):
        return Finding("scratch", "missing", f"{folder}: {reason}", "set TMPDIR to a folder with some free space")
    free = shutil.disk_usage(folder).free
    state: Literal["ok", "missing"] = "ok" if free > 200 << 20 else "missing"
    return Finding(
        "scratch", state, f"{folder}, {_gib(free)} free", "" if state == "ok" else "make room, or set TMPDIR"
    )


def postgresql() -> Finding:
    try:
        return Finding("postgresql", "ok", f"psycopg {importlib.metadata.version('psycopg')}")
    except importlib.metadata.PackageNotFoundError:
        hint = "only for a postgresql:// store: pip install 'cuda-agent[postgres]'"
        return Finding("postgresql", "optional", "psycopg is not installed", hint)


def gpu() -> Finding:
    found = shutil.which("nvidia-smi")
    query = "--query-gpu=name,driver_version,memory.total"
    said = _output([found, query, "--format=csv,noheader"]) if found else None
    if said and said.strip():
        return Finding("gpu", "ok", "; ".join(said.strip().splitlines()))
    return Finding("gpu", "optional", "no NVIDIA GPU is visible; this version judges on the CPU, and needs none")


def nvcc() -> Finding:
    found = shutil.which("nvcc")
    if found is None:
        return Finding("nvcc", "optional", "not on PATH; this version needs none")
    said = (_output([found, "--version"]) or "").splitlines()
    release = next((line.split("release ")[1].split(",")[0] for line in said if "release " in line), "?")
    return Finding("nvcc", "ok", f"{release}, {found}")


def triton() -> Finding:
    from cuda_agent.backends.triton import require

    try:
        require("cuda" if os.path.exists("/dev/nvidiactl") else "cpu")
    except MachineError as error:
        return Finding("triton", "optional", str(error))
    return Finding("triton", "ok", importlib.metadata.version("triton"))


def _output(argv: list[str], timeout: float = 30) -> str | None:
    """What a program prints, or None where it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _fields(text: str) -> list[tuple[str, str]]:
    """`name : value` lines, first ones winning (a processor's fields come once for each core)."""
    rows = [line.partition(":") for line in text.splitlines()]
    return [(name.strip(), value.strip()) for name, _, value in reversed(rows)]


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())


def _not_writable(folder: Path) -> str:
    """Why nothing can be written there, or the empty string; tries it out, since root may write anywhere but on a
    read-only or full disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x" * 65536)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
