"""What runs in the sandbox cannot see, reach or outlive: tried with real programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuda_agent.sandbox import Finished, Limits, SandboxedRunner


def run(folder: Path, code: str, *, limits: Limits | None = None, timeout_s: float = 20.0) -> Finished:
    runner = SandboxedRunner(limits=limits or Limits(memory_bytes=1 << 30, processes=64, scratch_bytes=64 << 20))
    return runner(["python", "-c", code], cwd=folder, timeout_s=timeout_s)


@pytest.fixture(scope="module", autouse=True)
def _namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    required = SandboxedRunner(require=True)
    if required(["true"], cwd=tmp_path_factory.mktemp("probe"), timeout_s=20.0).returncode != 0:
        pytest.skip("this machine allows no namespaces: `cuda-agent doctor` says how to get them")


def test_only_the_workspace_is_writable(tmp_path: Path) -> None:
    (tmp_path / "here.txt").write_text("kept")
    done = run(
        tmp_path,
        "import pathlib\n"
        "print(pathlib.Path('here.txt').read_text())\n"
        "pathlib.Path('new.txt').write_text('written')\n"
        "for place in ('/usr/x', '/etc/x', '/x', '/dev/x'):\n"
        "    try: pathlib.Path(place).write_text('x'); print('WROTE', place)\n"
        "    except OSError: pass\n",
    )
    assert done.stdout == "kept\n", done
    assert (tmp_path / "new.txt").read_text() == "written"
    assert (tmp_path / "new.txt").stat().st_uid == os.getuid()


def test_neither_files_nor_environment_of_the_user_are_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("sk-do-not-read")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.setenv("SECRET_API_KEY", "sk-do-not-read")
    done = run(
        workspace,
        "import os, glob\n"
        f"print(os.path.exists({str(secret)!r}), dict(os.environ))\n"
        "for file in glob.glob('/proc/*/environ'):\n"
        "    try: print(open(file, 'rb').read())\n"
        "    except OSError as error: print(error)\n"
        "print(os.listdir('/home') if os.path.exists('/home') else 'no home')\n",
    )
    assert done.returncode == 0, done
    assert "sk-do-not-read" not in done.stdout + done.stderr
    assert "False" in done.stdout


def test_no_network(tmp_path: Path) -> None:
    code = (
        "import socket\ntry: socket.create_connection(('127.0.0.1', 9), 2)\nexcept OSError as error: print(error.errno)"
    )
    assert run(tmp_path, code).stdout.strip() in ("101", "111")
    code = "import socket\nprint([name for _, name in socket.if_nameindex()])"
    assert "eth" not in run(tmp_path, code).stdout


def test_system_calls_into_other_processes_are_denied(tmp_path: Path) -> None:
    code = (
        "import ctypes, os, signal\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def failed(*call): return libc.syscall(*call) == -1 and ctypes.get_errno() == 1\n"
        "print(failed(101, 0, 0, 0, 0), failed(272, 0x10000000), failed(321, 0, 0, 0), failed(425, 8, 0))\n"
        "child = os.fork()\n"
        "if child == 0:\n    signal.pause()\n"
        "try: os.kill(child, signal.SIGCONT); print('woken')\n"
        "except PermissionError: print('denied')\n"
        "os.kill(child, signal.SIGKILL)\n"
    )
    if os.uname().machine == "x86_64":
        assert run(tmp_path, code).stdout.split() == ["True", "True", "True", "True", "denied"]


def test_nothing_outlives_the_command(tmp_path: Path) -> None:
    mark = f"outlives-{os.getpid()}-{time.time_ns()}"
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        os.execvp('python', ['python', '-c', 'import time; time.sleep(60)', '{mark}'])\n"
        "    os._exit(0)\n"
        "time.sleep(0.5)\n"
    )
    run(tmp_path, code)
    assert mark not in subprocess.run(["ps", "axww"], capture_output=True, text=True, check=False).stdout
    started = time.monotonic()
    assert run(tmp_path, f"import time; '{mark}'; time.sleep(60)", timeout_s=1.0).timed_out
    assert time.monotonic() - started < 10
    assert mark not in subprocess.run(["ps", "axww"], capture_output=True, text=True, check=False).stdout


def test_limits_on_memory_processes_and_files(tmp_path: Path) -> None:
    assert "MemoryError" in run(tmp_path, "x = bytearray(3 << 30)").stderr
    crowd = (
        "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n"
        "            time.sleep(5); os._exit(0)\n"
        "        n += 1\nexcept OSError: print(n)\n"
    )
    assert 30 <= int(run(tmp_path, crowd).stdout) < 64
    together = (
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(400 << 20)\n"
        "        time.sleep(20)\nos.wait()\n"
    )
    assert "more memory" in run(tmp_path, together, timeout_s=60.0).stderr
    full = (
        "f = open('/tmp/x', 'wb')\ntry:\n    while True: f.write(bytes(1 << 20)); f.flush()\n"
        "except OSError as error: print(error.errno)\n"
    )
    assert run(tmp_path, full).stdout.strip() == "28"


def test_exit_codes_and_signals_are_those_of_the_command(tmp_path: Path) -> None:
    assert run(tmp_path, "raise SystemExit(7)").returncode == 7
    assert run(tmp_path, "import os; os.kill(os.getpid(), 11)").returncode == -11
    assert SandboxedRunner()(["no-such-program"], cwd=tmp_path, timeout_s=9.0).returncode == 127


def test_python_and_this_package_work_inside(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch, cuda_agent.task; print(float(torch.ones(3).sum()))")
    assert done.stdout.strip() == "3.0", done


def test_without_a_sandbox_the_machines_own_file_systems_are_nobodys_memory() -> None:
    """/tmp and /dev/shm are then everybody's, and /tmp may be the whole disk."""
    code = "from cuda_agent.sandbox.processes import Crowd; print(Crowd(isolated=False).resident_bytes())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
