"""The program that runs one command inside a jail: `python -I -S launch.py CONFIG COMMAND…` (see `SandboxedRunner`).

launcher ─► first process of the namespace (watches memory, ends everything with the command) ─► the command
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import NoReturn

from cuda_agent.sandbox import jail, linux
from cuda_agent.sandbox.processes import Crowd

GUARDS_MISSING = 250
OUT_OF_MEMORY = 251
FAILED = 252


def main(arguments: list[str]) -> NoReturn:
    config = json.loads(arguments[0])
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    what = jail.Jail(
        writable=config["writable"],
        readable=config["readable"],
        placed=config["placed"],
        limits=jail.Limits(**config["limits"]),
        loopback=config["loopback"],
    )
    guards = jail.enter(what) if config["isolate"] else {"namespaces": False}
    if config["require"] and not all(guards.values()):
        missing = ", ".join(name for name, active in guards.items() if not active)
        print(f"the sandbox lacks {missing}; `cuda-agent doctor` says how to get it", file=sys.stderr)
        os._exit(GUARDS_MISSING)
    isolated = guards["namespaces"]
    if not isolated:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        _first_process(what, isolated, config["cwd"] if isolated else config["host_cwd"], config["env"], arguments[1:])
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) % 256)


def _first_process(what: jail.Jail, isolated: bool, cwd: str, env: dict[str, str], argv: list[str]) -> NoReturn:
    """Starts the command, outlives it by nothing and exits as it did (128 + n after signal n)."""
    try:
        if isolated:
            jail.settle()
        child = os.fork()
        if child == 0:
            os.chdir(cwd)
            jail.confine(what.limits, isolated)
            os.execvpe(argv[0], argv, env)
    except OSError as error:
        print(f"{argv[0]}: {error}", file=sys.stderr)
        os._exit(127 if isinstance(error, FileNotFoundError) else FAILED)
    jail.drop_privileges()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    crowd = Crowd(isolated)
    pause = 0.002
    looked = time.monotonic()
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            crowd.kill()
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        if not pid:
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        if time.monotonic() - looked > 0.1:
            looked = time.monotonic()
            if crowd.resident_bytes() > what.limits.memory_bytes:
                print("stopped: it used more memory than it may", file=sys.stderr)
                crowd.kill()
                os._exit(OUT_OF_MEMORY)
