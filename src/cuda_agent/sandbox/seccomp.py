"""A seccomp filter, assembled by hand so that no library is needed: what untrusted code must never call.

It denies the ways into other processes (ptrace, process_vm_*, pidfd_getfd), kernel machinery with a history of holes
(bpf, perf, io_uring, userfaultfd, keyrings, modules), new namespaces and mounts, and SIGCONT: a frozen process stays
frozen until the keeper wakes it. The rest of the kernel stays
reachable; this filter stands beside namespaces and limits.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from cuda_agent.sandbox.linux import PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, prctl

# name: (x86_64, aarch64); None where the architecture has no such call
DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "quotactl": (179, 60),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "seccomp": (317, 277),
    "set_mempolicy_home_node": (450, 450),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "lookup_dcookie": (212, 18),
}
_CLONE, _CLONE3, _PRCTL = (56, 220), (435, 435), (157, 167)
_SIGNAL_CALLS = {"kill": ((62, 129), 1), "tkill": ((200, 130), 1), "tgkill": ((234, 131), 2)}
_QUEUE_CALLS = {"rt_sigqueueinfo": ((129, 138), 1), "rt_tgsigqueueinfo": ((297, 240), 2)}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag
_SIGCONT = 18
_X32_BIT = 0x40000000

_LOAD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000


def _deny(number: int) -> int:
    return 0x00050000 | number


def program(machine: str) -> bytes:
    """The filter for `machine` (x86_64 or aarch64) as an array of `struct sock_filter`."""
    column = 0 if machine == "x86_64" else 1
    rows: list[tuple[int, int, int, int]] = []

    def op(code: int, k: int, jt: int = 0, jf: int = 0) -> None:
        rows.append((code, jt, jf, k))

    def argument(index: int) -> int:
        return 16 + 8 * index

    op(_LOAD, 4)
    op(_JEQ, _AUDIT_ARCH[machine], 1, 0)
    op(_RET, _KILL)
    op(_LOAD, 0)
    if machine == "x86_64":
        op(_JGE, _X32_BIT, 0, 1)
        op(_RET, _deny(errno.ENOSYS))
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            op(_JEQ, number, 0, 1)
            op(_RET, _deny(errno.EPERM))
    op(_JEQ, _CLONE3[column], 0, 1)
    op(_RET, _deny(errno.ENOSYS))  # its flags lie in memory: the C library falls back to clone
    _when_argument(rows, _CLONE[column], argument(0), _JSET, _NEW_NAMESPACES)
    _when_argument(rows, _PRCTL[column], argument(0), _JEQ, PR_SET_DUMPABLE)
    for calls in (_SIGNAL_CALLS, _QUEUE_CALLS):
        for call_numbers, index in calls.values():
            _when_argument(rows, call_numbers[column], argument(index), _JEQ, _SIGCONT)
    op(_RET, _ALLOW)
    return b"".join(struct.pack("=HBBI", *row) for row in rows)


def _when_argument(rows: list[tuple[int, int, int, int]], call: int, offset: int, test: int, value: int) -> None:
    """Deny `call` when the low word of the argument at `offset` passes `test`; reloads the call's number after."""
    rows += [
        (_JEQ, 0, 4, call),
        (_LOAD, 0, 0, offset),
        (test, 0, 1, value),
        (_RET, 0, 0, _deny(errno.EPERM)),
        (_LOAD, 0, 0, 0),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def available() -> bool:
    return os.uname().machine in _AUDIT_ARCH


def install() -> None:
    """Binds this process and all its descendants to the filter. Raises OSError."""
    code = program(os.uname().machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    wanted = _Program(len(code) // 8, ctypes.addressof(buffer))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(22, 2, ctypes.byref(wanted), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
