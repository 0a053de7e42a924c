"""A run that ends anywhere goes on where it was and repeats nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from scripted import call, do, episode, new_run, play, says, stop_at

from cuda_agent.agent.trajectory import Trajectory
from cuda_agent.store import Store

LOG = "log.txt"


def policy() -> Any:
    """Each step would show if it were done twice: appending to a file, an edit of what the edit before has left."""

    def step(n: int) -> dict[str, Any]:
        return call("bash", command=f"echo {n} >> {LOG}; cat {LOG}")

    return play(
        do("write", path="kernels/a.cpp", content="int a0;\n"),
        says("two at once", step(1), step(2)),
        do("edit", path="kernels/a.cpp", old_string="a0", new_string="a0a0"),
        says("prose"),
        do("nothing"),
        says("", step(3), call("edit", path="kernels/a.cpp", old_string="a0a0", new_string="a1"), step(4)),
    )


def outcome(folder: Path, trajectory: Trajectory) -> tuple[Any, ...]:
    files = {p.name: p.read_text() for p in sorted((folder / "workspace").rglob("*")) if p.is_file()}
    return trajectory.messages, trajectory.end, trajectory.calls, files


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Any, ...], int]:
    folder = tmp_path_factory.mktemp("undisturbed")
    store, run = new_run(folder)
    with store:
        trajectory = episode(folder, policy(), store, run).run()
        return outcome(folder, trajectory), len(store.events(run))


def test_interrupted_at_every_event(tmp_path: Path, undisturbed: tuple[tuple[Any, ...], int]) -> None:
    expected, count = undisturbed
    assert expected[3][LOG] == "1\n2\n3\n4\n"
    assert expected[3]["a.cpp"] == "int a1;\n"
    for number in range(1, count + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        store, run = new_run(folder)
        with store:
            with pytest.raises(KeyboardInterrupt):
                episode(folder, policy(), store, run, on_event=stop_at(number, KeyboardInterrupt)).run()
            assert len(store.events(run)) == number
            assert outcome(folder, episode(folder, policy(), store, run).run()) == expected, f"event {number}"


def test_interrupted_again_and_again(tmp_path: Path, undisturbed: tuple[tuple[Any, ...], int]) -> None:
    expected, count = undisturbed
    store, run = new_run(tmp_path)
    with store:
        for number in range(1, 9 * count, 4):
            try:
                trajectory = episode(tmp_path, policy(), store, run, on_event=stop_at(number, KeyboardInterrupt)).run()
            except KeyboardInterrupt:
                continue
            break
        assert outcome(tmp_path, trajectory) == expected


_PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from scripted import episode
from test_resume import policy
from cuda_agent.store import Store
folder = Path(sys.argv[2])
episode(folder, policy(), Store(folder / "store.db"), sys.argv[3]).run()
"""


@pytest.mark.parametrize("number", [5, 11, 20])
def test_killed(tmp_path: Path, number: int, undisturbed: tuple[tuple[Any, ...], int]) -> None:
    store, run = new_run(tmp_path)
    argv = [sys.executable, "-c", _PROGRAM, str(Path(__file__).parent), str(tmp_path), run]
    with store, subprocess.Popen(argv) as process:
        while len(store.events(run)) < number:
            assert process.poll() is None
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        # a command that was under way when the kill came is run again: only its own line may be there twice
        messages, end, calls, files = outcome(tmp_path, episode(tmp_path, policy(), store, run).run())
    expected = undisturbed[0]
    assert (end, calls) == expected[1:3]
    assert [m["role"] for m in messages] == [m["role"] for m in expected[0]]
    assert files["a.cpp"] == expected[3]["a.cpp"]
    assert sorted(set(files[LOG].split())) == ["1", "2", "3", "4"]
    assert len(files[LOG].split()) <= 5


def test_an_interrupted_command_is_run_again(tmp_path: Path) -> None:
    slow = play(do("bash", command=f"echo begun >> {LOG}; [ -e go ] || sleep 60; echo ended >> {LOG}"))
    store, run = new_run(tmp_path)
    with Store(store.url.database) as other, store:

        def interrupt_soon(event: Any) -> None:
            if event.kind == "call":
                signal.signal(signal.SIGALRM, _raise)
                signal.setitimer(signal.ITIMER_REAL, 0.5)

        with pytest.raises(KeyboardInterrupt):
            episode(tmp_path, slow, store, run, on_event=interrupt_soon).run()
        (tmp_path / "workspace" / "go").touch()
        done = episode(tmp_path, slow, other, run).run()
    assert done.end == "done"
    assert (tmp_path / "workspace" / LOG).read_text() == "begun\nbegun\nended\n"


def _raise(*_: Any) -> None:
    raise KeyboardInterrupt
