from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import OPENING, do, episode, new_run, play, run_new

from cuda_agent.agent.policy import call, says
from cuda_agent.agent.trajectory import MAX_STRIKES, Budget, Trajectory
from cuda_agent.errors import MachineError
from cuda_agent.store import Store


class Says:
    """A policy that gives the same answer each time."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, 0

    def act(self, messages: Any, tools: Any) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def roles(trajectory: Trajectory) -> list[str]:
    return [message["role"] for message in trajectory.messages]


def test_an_episode(tmp_path: Path) -> None:
    two = says("both", call("write", path="kernels/a.cpp", content="int a;"), call("bash", command="cat kernels/a.cpp"))
    done = run_new(tmp_path, play(two, do("read", path="kernels/a.cpp")))
    assert done.end == "done"
    assert roles(done) == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert [m["content"] for m in done.messages if m["role"] == "tool"] == [
        "wrote kernels/a.cpp (1 lines)",
        "exit code 0\nint a;",
        "int a;",
    ]
    ids = [c.id for turn in done.turns for c in turn.calls]
    assert ids == [m["tool_call_id"] for m in done.messages if m["role"] == "tool"] == ["call_1", "call_2", "call_3"]


def test_everything_is_stored_before_it_is_shown(tmp_path: Path) -> None:
    store, run = new_run(tmp_path)
    shown = []

    def listen(event: Any) -> None:
        assert store.events(run)[-1] == event
        shown.append(event.kind)

    with store:
        episode(tmp_path, play(do("bash", command="true")), store, run, on_event=listen).run()
    assert shown == ["message", "message", "message", "call", "observation", "message", "end"]


def test_ids_of_calls_are_made_unique(tmp_path: Path) -> None:
    same = [{"id": "a", "function": {"name": "bash", "arguments": '{"command": "true"}'}} for _ in range(2)]
    done = run_new(tmp_path, play({"tool_calls": same}, {"tool_calls": same}))
    ids = [c.id for turn in done.turns for c in turn.calls]
    assert len(set(ids)) == 4
    assert ids == [m["tool_call_id"] for m in done.messages if m["role"] == "tool"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (says("I would fuse the two loops."), "Your message calls no tool, so nothing has happened."),
        ({"role": "assistant", "content": None}, "Your message calls no tool"),
        ("DONE", "could not be used: it: Input should be a valid dictionary"),
        (None, "could not be used: it"),
        ({"tool_calls": "read"}, "could not be used: tool_calls: Input should be a valid list"),
        ({"tool_calls": [{"function": {"arguments": "{}"}}]}, "tool_calls.0.function.name: Field required"),
        ({"tool_calls": [call("todo", items=[])] * 40}, "it has 40 tool calls; 32 are the most"),
        ({"tool_calls": [{"function": {"name": "x", "arguments": "x" * 4_000_000}}]}, "are longer than"),
        (do("submit"), "could not be carried out"),
        (do("read", path="../.."), "could not be carried out"),
        (do("bash", command="echo again"), "repeat the ones before"),
        ({"content": "lone \ud800 and \0", "tool_calls": [call("\ud800\0")]}, "could not be carried out"),
    ],
)
def test_a_policy_that_gets_nowhere_is_told_and_ends(tmp_path: Path, answer: Any, said: str) -> None:
    policy = Says(answer)
    done = run_new(tmp_path, policy)
    assert done.end == "stuck"
    assert policy.asked <= MAX_STRIKES + 1
    hints = [m["content"] for m in done.messages[len(OPENING) :] if m["role"] == "user"]
    assert said in hints[0]
    assert "DONE as the last line" in hints[0]
    assert "After 1 more such message the work ends" in hints[-1]


def test_one_bad_turn_is_forgiven(tmp_path: Path) -> None:
    prose = says("Thinking.")
    useful = [do("bash", command=f"echo {n}") for n in range(4)]
    done = run_new(tmp_path, play(*[m for pair in zip([prose] * 4, useful, strict=True) for m in pair]))
    assert done.end == "done"
    assert len(done.turns) == 9


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(turns=3), "turns"),
        (Budget(seconds=0.5), "seconds"),
        (Budget(tokens=1000), "tokens"),
        (Budget(evaluations=0), "evaluations"),
    ],
)
def test_budgets(tmp_path: Path, budget: Budget, reason: str) -> None:
    messages = [do("bash", command=f"sleep 0.1; echo {n}") for n in range(50)]
    for message in messages:
        message["usage"] = {"prompt_tokens": 150, "completion_tokens": 50}
    done = run_new(tmp_path, play(*messages), budget=budget)
    assert done.end == reason
    assert len(done.turns) < 12
    assert "usage" not in str(done.messages)
    if reason == "tokens":
        assert done.tokens == 1000


def test_a_command_gets_no_more_than_what_is_left(tmp_path: Path) -> None:
    done = run_new(tmp_path, play(do("bash", command="sleep 30", timeout_s=30)), budget=Budget(seconds=1))
    assert done.end == "seconds"
    assert done.elapsed_s < 5
    assert done.messages[-1]["content"].startswith("killed after 1 s")


def test_a_policy_that_raises_ends_the_episode_and_can_go_on(tmp_path: Path) -> None:
    store, run = new_run(tmp_path)
    with store:
        failed = episode(tmp_path, Says(RuntimeError("no key")), store, run).run()
        assert (failed.end, failed.end_detail) == ("policy_failed", "RuntimeError: no key")
        assert episode(tmp_path, play(do("bash", command="true")), store, run).run().end == "done"


def test_a_finished_episode_stays_as_it_is(tmp_path: Path) -> None:
    store, run = new_run(tmp_path)
    with store:
        episode(tmp_path, play(do("bash", command="true")), store, run).run()
        again = episode(tmp_path, Says(RuntimeError("not asked")), store, run).run()
        assert again.end == "done"
        assert [e.kind for e in store.events(run)].count("end") == 1


def test_more_budget_lets_a_run_go_on(tmp_path: Path) -> None:
    policy = play(*[do("bash", command=f"echo {n}") for n in range(4)])
    store, run = new_run(tmp_path)
    with store:
        assert episode(tmp_path, policy, store, run, budget=Budget(turns=2)).run().end == "turns"
        assert episode(tmp_path, policy, store, run, budget=Budget(turns=2)).run().end == "turns"
        done = episode(tmp_path, policy, store, run, budget=Budget(turns=20)).run()
    assert (done.end, len(done.turns)) == ("done", 5)


def test_a_workspace_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    store, run = new_run(tmp_path)
    with store:
        started = episode(tmp_path, play(do("write", path="a.txt", content="x")), store, run)
        monkeypatch.setattr("cuda_agent.agent.workspace.tempfile.mkstemp", full)
        with pytest.raises(MachineError, match="cannot be written: No space left on device"):
            started.run()
        monkeypatch.undo()
        episode(tmp_path, play(do("write", path="a.txt", content="x")), store, run).run()
    assert (tmp_path / "workspace" / "a.txt").read_text() == "x"


def test_bash_that_deletes_everything(tmp_path: Path) -> None:
    wreck = do("bash", command="rm -rf * .outputs; ls | wc -l")
    messages = [
        do("write", path="kernels/a.cpp", content="int a;"),
        wreck,
        do("verify"),
        do("glob", pattern="*"),
    ]
    done = run_new(tmp_path, play(*messages, do("write", path="kernels/a.cpp", content="int b;")))
    assert done.end == "done"
    answers = [m["content"] for m in done.messages if m["role"] == "tool"]
    assert answers[1] == "exit code 0\n0"
    assert "there is no model_new.py yet" in answers[2]
    assert (tmp_path / "workspace" / "kernels" / "a.cpp").read_text() == "int b;"


def test_the_store_gives_the_same_trajectory(tmp_path: Path) -> None:
    store, run = new_run(tmp_path)
    with store:
        live = episode(tmp_path, play(do("bash", command="true"), do("nothing")), store, run).run()
        url = store.url
    read = Trajectory()
    with Store(str(url.database)) as again:
        for event in again.events(run):
            read.apply(event.kind, event.payload)
    assert read == live
