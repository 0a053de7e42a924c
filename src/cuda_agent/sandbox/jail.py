"""Locking a freshly forked process in: namespaces, a read-only system, limits, no capabilities, seccomp.

    outside ──fork──► enter()  … own user, PID, network, mount, IPC and UTS namespaces …
                        └─fork─► first process of the PID namespace: the keeper (trusted; dies → everything dies)
                                   └─fork─► confine()  … limits, no capabilities, seccomp …  untrusted code

Only what is listed below exists inside: the system's programs and libraries, the Python installation and this package,
all read-only, and one writable folder. Nothing of the user's home, environment or other files.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cuda_agent.sandbox import linux, seccomp

UNPRIVILEGED_ID = 65534
SCRATCH = "/scratch"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt/cuda", "/nix/store", "/gnu/store")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "nsswitch.conf", "OpenCL")
_DEVICES = ("null", "zero", "full", "random", "urandom")


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use. `memory_bytes` bounds each process's private memory and, through the keeper's watch,
    the resident memory of all together; `scratch_bytes` the files under /tmp. With `reserving` a process may reserve
    more address space than that (AddressSanitizer maps terabytes of which it uses little)."""

    memory_bytes: int = 8 << 30
    reserving: bool = False
    processes: int = 256
    open_files: int = 1024
    file_bytes: int = 4 << 30
    scratch_bytes: int = 1 << 30
    cpu_seconds: int = 3600


@dataclass(frozen=True)
class Jail:
    """What is visible inside. `writable` maps a host folder to the path it has inside; `readable` lists host paths that
    keep their own path (`system_paths()` at least, taken where the virtual environment is active), `placed` host paths
    that get another one."""

    writable: Mapping[str, str] = field(default_factory=dict)
    readable: Sequence[str] = ()
    placed: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    loopback: bool = False
    """A network of one's own with 127.0.0.1, by which the parts of a profiler talk to each other."""


def system_paths() -> list[str]:
    """Host paths a Python program with this package needs, without duplicates or paths inside one another."""
    package = str(Path(__file__).resolve().parent.parent)
    wanted = [sys.prefix, sys.base_prefix, sys.exec_prefix, package]
    wanted += [sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    wanted += [os.path.realpath(path) for path in wanted]
    compiler = shutil.which(os.environ.get("CXX", ""))
    if compiler is not None and re.match(r"/opt/[^/]+/.*bin/", compiler):  # with its own folders beside its `bin`
        wanted.append(os.path.dirname(os.path.dirname(compiler)))
    kept: list[str] = []
    for path in sorted({p for p in wanted if os.path.isdir(p)}, key=len):
        if not any(path == k or path.startswith(k + "/") for k in (*kept, "/usr")):
            kept.append(path)
    return kept


def enter(jail: Jail) -> dict[str, bool]:
    """Moves this single-threaded process into new namespaces with a new root; its next child is their first process.

    Root keeps its rights until `drop_privileges`; anybody else gets them inside a user namespace only. Returns the
    guards that are active: where the kernel or its policy denies namespaces all are False and nothing has changed.
    Raises OSError for a fault half-way.
    """
    names = ("namespaces", "network", "files")
    flags = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    uid, gid = os.geteuid(), os.getegid()
    try:
        linux.unshare(flags if uid == 0 else flags | linux.CLONE_NEWUSER)
    except OSError:
        return dict.fromkeys(names, False)
    if uid != 0:
        for file, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
            Path(f"/proc/self/{file}").write_text(text)
    if jail.loopback:
        linux.loopback_up()
    _build_root(jail)
    return dict.fromkeys(names, True)


def settle() -> None:
    """In the first process of the new PID namespace: a /proc that shows this namespace only."""
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def confine(limits: Limits, isolated: bool = True) -> dict[str, bool]:
    """The last step before untrusted code runs in this process. Returns the guards that are active.

    Without namespaces root stays root: the installation that the code needs may be readable to nobody else."""
    os.umask(0o022)
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _limit(resource.RLIMIT_CORE, 0)
    if not limits.reserving:
        _limit(resource.RLIMIT_DATA, limits.memory_bytes)
    _limit(resource.RLIMIT_NPROC, limits.processes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    _limit(resource.RLIMIT_MEMLOCK, 64 << 20)
    if isolated or os.geteuid() != 0:
        drop_privileges()
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # the keeper reads the outputs from this process's memory
    guards = {"limits": True, "unprivileged": os.geteuid() != 0, "seccomp": False}
    if seccomp.available():
        try:
            seccomp.install()
            guards["seccomp"] = True
        except OSError:
            pass
    return guards


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def drop_privileges() -> None:
    """Root becomes an unprivileged user, since root escapes limits and owns the machine's files; no capabilities."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        os.setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    linux.drop_capabilities()


def _visible(jail: Jail) -> list[tuple[str, str, bool]]:
    """(host path, path inside, read-only?) of all that is to be visible, shallow paths first."""
    rows: list[tuple[str, str, bool]] = []
    rows += [(p, p, True) for p in _SYSTEM if os.path.isdir(p) and not os.path.islink(p)]
    rows += [(f"/etc/{n}", f"/etc/{n}", True) for n in _ETC if os.path.exists(f"/etc/{n}")]
    rows += [(f"/dev/{n}", f"/dev/{n}", False) for n in _DEVICES]
    rows += [(p, p, True) for p in jail.readable if os.path.exists(p)]
    rows += [(host, inside, True) for host, inside in jail.placed.items()]
    rows += [(host, inside, False) for host, inside in jail.writable.items()]
    return rows


def _build_root(jail: Jail) -> None:
    linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    # Assembled on a tmpfs over a folder that nothing visible lies in; /proc is none's source.
    root = "/sys"
    size = f"size={jail.limits.scratch_bytes},mode=755"
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, size)
    for link in _SYSTEM:
        if os.path.islink(link):
            os.symlink(os.readlink(link), root + link)
    for folder in ("/proc", "/dev", "/etc", "/tmp"):
        os.mkdir(root + folder)
    # the writable /tmp first: folders that are to be visible may lie below it
    linux.mount("tmpfs", root + "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, size.replace("755", "1777"))
    for host, inside, read_only in _visible(jail):
        _bind(host, root + inside, read_only)
    _write_identity(root)
    os.makedirs(root + "/dev/shm")
    linux.mount("tmpfs", root + "/dev/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, size.replace("755", "1777"))
    # the old /proc stays until `settle`: a user namespace may mount proc only where one is visible
    linux.mount("/proc", root + "/proc", "", linux.MS_BIND | linux.MS_REC)
    os.mkdir(root + "/.old")
    linux.pivot_root(root, root + "/.old")
    os.chdir("/")
    linux.umount("/.old")
    os.rmdir("/.old")
    linux.mount("none", "/", "", linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV)


def _bind(source: str, target: str, read_only: bool) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()
    linux.mount(source, target, "", linux.MS_BIND | linux.MS_REC)
    if read_only:
        flags = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID
        linux.mount("none", target, "", flags | _locked_flags(target))


def _locked_flags(path: str) -> int:
    """Mount flags that a user namespace must repeat when it mounts again."""
    have = os.statvfs(path).f_flag
    flags = linux.MS_NODEV if have & os.ST_NODEV else 0
    flags |= linux.MS_NOEXEC if have & os.ST_NOEXEC else 0
    flags |= linux.MS_NOATIME if have & os.ST_NOATIME else 0
    flags |= linux.MS_NODIRATIME if have & os.ST_NODIRATIME else 0
    return flags | (linux.MS_RELATIME if have & os.ST_RELATIME else 0)


def _write_identity(root: str) -> None:
    Path(root + "/etc/passwd").write_text("sandbox:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n")
    Path(root + "/etc/group").write_text("sandbox:x:1000:\nnogroup:x:65534:\n")
    Path(root + "/etc/hosts").write_text("127.0.0.1 localhost\n")
