"""The process from which every worker is forked: torch imported, nothing run, nothing known.

It is executed with a bare environment, so that a child's /proc/self/environ holds nothing of the user's, and it never
opens a device or an OpenMP region, so that its children can. For each worker the parent sends a description and one end
of a socket; the zygote forks, the child moves into its jail and becomes the keeper (`keeper.py`), whose child is the
worker (`harness.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Any, NoReturn

from cuda_agent.judge.worker import keeper, wire
from cuda_agent.sandbox import jail, linux


def main(descriptor: int, with_compiler: bool, with_triton: bool) -> NoReturn:
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    _import_everything(with_compiler, with_triton)
    wire.send(control, {"ready": True})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a child: the kernel buries it
    while True:
        try:
            order, descriptors = wire.receive(control, descriptors=4)
        except EOFError:
            os._exit(0)
        channel, output = descriptors
        if os.fork() == 0:
            control.close()
            _become_keeper(order, socket.socket(fileno=channel), output)
        os.close(channel)
        os.close(output)


def _import_everything(with_compiler: bool, with_triton: bool) -> None:
    import torch
    import torch.autograd.profiler
    import torch.utils.cpp_extension

    import cuda_agent.backends.inline
    import cuda_agent.backends.signatures
    import cuda_agent.judge.worker.candidate
    import cuda_agent.judge.worker.reference
    import cuda_agent.runtime  # noqa: F401

    torch.set_grad_enabled(False)
    if with_triton:
        with contextlib.suppress(ImportError):  # optional; it asks for a device only when a kernel is launched
            import triton.language  # noqa: F401
    if with_compiler:
        _warm_compiler()


def _warm_compiler() -> None:
    """What torch.compile works out once in each process, so that no worker does: its modules, the vector instructions
    of this machine, the hash of its own code. A precompiled header pays only after several tasks, in one shared
    folder, which tasks must not write to."""
    os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
    import torch._dynamo
    import torch._inductor.codegen.cpp
    import torch._inductor.compile_fx  # noqa: F401

    with contextlib.suppress(ImportError, AttributeError):  # private, and so may move
        from torch._inductor import codecache, cpu_vec_isa

        cpu_vec_isa.pick_vec_isa()
        codecache.torch_key()


def _become_keeper(order: dict[str, Any], channel: socket.socket, output: int) -> NoReturn:
    """Enters the jail, forks the namespace's first process and leaves; the zygote buries it when it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        what = jail.Jail(
            writable=order["writable"],
            readable=order["readable"],
            placed=order["placed"],
            limits=jail.Limits(**order["limits"]),
        )
        guards = jail.enter(what) if order["isolate"] else {}
        if os.fork() == 0:
            keeper.main(order, what.limits, guards, channel, output)
    except BaseException as error:
        _report(channel, error)
    os._exit(0)


def _report(channel: socket.socket, error: BaseException) -> None:
    try:
        wire.send(channel, {"state": "failed", "why": f"{type(error).__name__}: {error}"})
    except OSError:
        sys.stderr.write(f"worker: {error}\n")
