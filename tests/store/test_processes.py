"""Many processes at once, forks, and processes that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cuda_agent.store import Store
from cuda_agent.verdict import Status, Verdict

WRITER = """
import sys
from cuda_agent.store import Store
from cuda_agent.verdict import Status, Verdict
url, run, count = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
store = Store(url)
for n in range(int(count)):
    print(store.save_verdict(Verdict(status=Status.CORRECT, message=str(n))).id, flush=True)
    if run:
        store.append_event(run, "turn", {"n": n})
"""
KILLED = WRITER + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"


def _start(script: str, url: str, run: str, count: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", script, url, run, str(count)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _together(processes: list[subprocess.Popen[str]]) -> list[list[str]]:
    """Lets all begin at the same time; returns what each printed."""
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[0].split() for process in processes]


def test_four_processes_make_one_store_and_write(url: str) -> None:
    processes = [_start(WRITER, url, "", 10) for _ in range(4)]
    printed = _together(processes)
    assert [process.returncode for process in processes] == [0] * 4
    with Store(url) as store:
        assert {verdict.id for verdict in store.verdicts()} == {id for ids in printed for id in ids}
        assert len(store.verdicts()) == 40


def test_events_of_one_run_from_two_processes_are_numbered_without_gaps(store: Store, url: str) -> None:
    run = store.create_run("optimize", {})
    processes = [_start(WRITER, url, run, 15) for _ in range(2)]
    _together(processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert [event.number for event in store.events(run)] == list(range(1, 31))


def test_a_shown_verdict_survives_kill_9(url: str) -> None:
    process = _start(KILLED, url, "", 3)
    (printed,) = _together([process])
    assert process.returncode == -9
    with Store(url) as store:
        assert [verdict.id for verdict in reversed(store.verdicts())] == printed and len(printed) == 3


def test_threads_share_a_store(store: Store) -> None:
    run = store.create_run("optimize", {})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.append_event(run, "turn", {"n": n}), range(40)))
    assert sorted(event.payload["n"] for event in store.events(run)) == list(range(40))


def test_a_store_goes_on_after_a_fork(store: Store) -> None:
    store.save_verdict(Verdict(status=Status.CORRECT))
    child = os.fork()
    if child == 0:
        try:
            store.save_verdict(Verdict(status=Status.WRONG))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store.save_verdict(Verdict(status=Status.TIMEOUT))
    assert [verdict.status.value for verdict in store.verdicts()] == ["timeout", "wrong", "correct"]
