"""How a candidate fails: a status, the stage, and a message that its writer can act on."""

from __future__ import annotations

import os
import re
import signal

from cuda_agent.judge.worker.pool import WorkerFault
from cuda_agent.sandbox.jail import system_paths
from cuda_agent.verdict import Stage, Status

_SIGNALS = {
    signal.SIGSEGV: "a bad memory access (SIGSEGV)",
    signal.SIGBUS: "a bad memory access (SIGBUS)",
    signal.SIGFPE: "an integer division by zero or overflow (SIGFPE)",
    signal.SIGILL: "an illegal instruction (SIGILL)",
    signal.SIGABRT: "an abort (SIGABRT): a failed assertion, an uncaught C++ exception or damaged heap memory",
    signal.SIGKILL: "SIGKILL",
    signal.SIGXCPU: "the limit on processor time",
    signal.SIGXFSZ: "the limit on file size",
    signal.SIGSYS: "a forbidden system call",
}
_BUILD_ERRORS = ("KernelBuildError", "CompilerMissing", "BuildNeeded")
_TRITON_ERRORS = (
    "CompilationError",
    "CompileTimeAssertionFailure",
    "UnsupportedLanguageConstruct",
    "OutOfResources",
    "PTXASError",
)
"""What Triton's compiler raises when a kernel is launched for the first time."""
_NO_FILE = "@jit functions should be defined in a Python file"


class Rejected(Exception):
    """The evaluation ends here."""

    def __init__(self, status: Status, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.status, self.stage, self.message = status, stage, message


def rejected(fault: WorkerFault, stage: Stage, doing: str, output: str = "") -> Rejected:
    """A worker's fault while it ran candidate code."""
    detail = fault.detail
    match fault.state:
        case "timeout":
            limit = f"{detail.get('seconds', 0):.0f} s"
            return Rejected(Status.TIMEOUT, stage, f"{doing} took longer than {limit}; it was stopped")
        case "memory":
            limit = f"{detail.get('bytes', 0) / 2**30:.1f} GiB"
            return Rejected(Status.RUNTIME_ERROR, stage, f"{doing} used more memory than the {limit} that it may")
        case "died":
            return Rejected(
                Status.RUNTIME_ERROR, stage, f"{doing} ended the process: {_how(detail.get('code'), output)}"
            )
        case "garbage":
            return Rejected(Status.FORBIDDEN, stage, f"{doing} answered what it was not asked: {detail.get('why')}")
        case "unreadable":
            return Rejected(Status.FORBIDDEN, stage, f"{doing} gave an output that lies in no readable memory")
        case "too_large":
            return Rejected(Status.WRONG, stage, f"{doing} gave an output of {detail.get('bytes', 0) / 2**30:.1f} GiB")
        case "error":
            return _own_error(detail, stage, doing)
    return Rejected(Status.JUDGE_ERROR, stage, f"{doing}: {fault}")


def _own_error(detail: dict[str, object], stage: Stage, doing: str) -> Rejected:
    message = str(detail.get("message", ""))
    kind = str(detail.get("kind", "exception"))
    if kind == "output":
        return Rejected(Status.WRONG, stage, message)
    if kind == "rule":
        return Rejected(Status.FORBIDDEN, stage, message)
    if kind == "memory":
        return Rejected(Status.RUNTIME_ERROR, stage, f"{doing} ran out of memory: {message}")
    if kind == "solution":
        return Rejected(Status.RUNTIME_ERROR, stage, message)
    name = str(detail.get("type", "error"))
    if name in _BUILD_ERRORS or message == _NO_FILE:
        return Rejected(Status.BUILD_ERROR, "build", message)
    frames = detail.get("frames")
    places = [f"  {line}" for line in frames] if isinstance(frames, list) else []
    if name in _TRITON_ERRORS:
        said = f"Triton does not compile a kernel that {doing} launches: {message}"
        return Rejected(Status.BUILD_ERROR, "build", "\n".join([said, *places]))
    lines = [f"{doing} raised {name}: {message}"] if name else [message]
    return Rejected(Status.RUNTIME_ERROR, stage, "\n".join([*lines, *places]))


def _how(code: object, output: str) -> str:
    if isinstance(code, int) and code < 0:
        text = _SIGNALS.get(signal.Signals(-code), f"signal {-code}") if -code < signal.NSIG else f"signal {-code}"
    elif isinstance(code, int):
        text = f"exit status {code} without an answer"
    else:
        text = "it is gone without an answer"
    tail = "\n".join(line for line in output.strip().splitlines()[-6:] if line.strip())
    return f"{text}\n{tail}" if tail else text


MAX_LINE = 400
_INSTALLATION = sorted({*system_paths(), os.path.expanduser("~")}, key=len, reverse=True)
_HOST_PATH = re.compile(r"(?:/[\w.+-]+)+/(solution|workspace|task)/")


def cleaned(message: str, *paths: str) -> str:
    """The message without paths of the sandbox and of the judge's scratch."""
    for path in (*paths, "/solution/", "/workspace/", "/task/"):
        message = message.replace(path if path.endswith("/") else path + "/", "")
    for place in _INSTALLATION:
        message = message.replace(place + "/", "")
    lines = [line if len(line) <= MAX_LINE else line[:MAX_LINE] + " …" for line in message.splitlines()]
    return _HOST_PATH.sub("", "\n".join(lines))
