"""The Linux calls that Python's standard library lacks, through ctypes; a failure is an OSError naming the call."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 0x400, 0x800, 0x200000
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 36, 47, 4

_libc = ctypes.CDLL(None, use_errno=True)
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _checked("unshare", _libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    _checked(
        f"mount {target}",
        _libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode()),
    )


def umount(target: str, flags: int = MNT_DETACH) -> None:
    _checked(f"umount {target}", _libc.umount2(target.encode(), ctypes.c_int(flags)))


def pivot_root(new: str, old: str) -> None:
    number = _PIVOT_ROOT[os.uname().machine]
    _checked("pivot_root", _libc.syscall(ctypes.c_long(number), new.encode(), old.encode()))


def prctl(option: int, value: int = 0, *rest: int) -> None:
    arguments = [ctypes.c_ulong(x) for x in (value, *rest, *[0] * (3 - len(rest)))]
    _checked(f"prctl {option}", _libc.prctl(ctypes.c_int(option), *arguments))


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _CapData(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def drop_capabilities() -> None:
    """Gives up every capability, in this and in any program executed later."""
    for capability in range(64):
        if _libc.prctl(ctypes.c_int(PR_CAPBSET_DROP), ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    _libc.prctl(ctypes.c_int(PR_CAP_AMBIENT), ctypes.c_ulong(PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    header = _CapHeader(0x20080522, 0)
    _checked("capset", _libc.capset(ctypes.byref(header), ctypes.byref((_CapData * 2)())))


class _IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


_libc.process_vm_readv.restype = ctypes.c_ssize_t


def read_memory(pid: int, source: int, target: int, length: int) -> int:
    """Copies `length` bytes at address `source` of process `pid` to our own address `target`; returns bytes copied."""
    done = 0
    while done < length:
        local, remote = _IoVec(target + done, length - done), _IoVec(source + done, length - done)
        count = _libc.process_vm_readv(
            ctypes.c_int(pid), ctypes.byref(local), ctypes.c_ulong(1), ctypes.byref(remote), ctypes.c_ulong(1), 0
        )
        if count <= 0:
            break
        done += count
    return done


def memory_file(size: int) -> int:
    """The descriptor of a memory file of `size` bytes that nobody can shrink or grow, so that mappings stay valid."""
    descriptor = os.memfd_create("cuda-agent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def loopback_up() -> None:
    """Switches 127.0.0.1 on in this process's network namespace, where it needs no rights outside of it."""
    set_flags, up_and_running = 0x8914, 0x41
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up_and_running))
