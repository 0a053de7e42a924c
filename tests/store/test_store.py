"""What goes in comes out, in both kinds of database."""

from __future__ import annotations

import math

import pytest

from cuda_agent.errors import UsageError
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Interval, Speedup, Status, Verdict

TASK = Task.from_source("class Model: ...\ndef get_inputs(): ...", name="thing")
SOLUTION = Solution.from_source("class ModelNew: ...", {"x.cpp": "int x;"}, name="answer")
VERDICT = Verdict(
    status=Status.CORRECT,
    message="fine\x00 ✓",
    speedup=Speedup(eager=Interval(median=2.0, low=1.9, high=2.1)),
    rewards={"milestone": 2.0, "roofline": None},
    precision="bf16",
)


def test_a_verdict_comes_back_with_its_task_and_solution(store: Store) -> None:
    stored = store.save_verdict(VERDICT, TASK, SOLUTION)
    assert stored.id and stored.created and (stored.task, stored.solution) == (TASK.id, SOLUTION.id)
    assert store.verdict(stored.id) == stored
    assert store.task(TASK.id) == TASK and store.solution(SOLUTION.id) == SOLUTION
    task, solution = store.task(TASK.id), store.solution(SOLUTION.id)
    assert task and solution and (task.name, solution.name) == ("thing", "answer")


def test_saving_twice_makes_two_verdicts_of_one_task(store: Store) -> None:
    first, second = (store.save_verdict(VERDICT, TASK, SOLUTION) for _ in range(2))
    assert first.id != second.id
    assert store.verdicts(task=TASK.id) == [second, first]
    assert store.verdicts(solution=SOLUTION.id, limit=1) == [second]
    assert store.verdicts(task="000000000000") == []


def test_a_verdict_needs_neither_task_nor_solution(store: Store) -> None:
    stored = store.save_verdict(Verdict(status=Status.INVALID_TASK, message="random"))
    assert store.verdict(stored.id) == stored
    assert (stored.task, stored.solution) == ("", "")


def test_unknown_ids_are_none(store: Store) -> None:
    assert store.verdict("x") is store.task("x") is store.solution("x") is store.run("x") is store.baseline("x") is None
    assert store.last_run() is None and store.events("x") == []


def test_a_baseline_is_replaced(store: Store) -> None:
    store.save_baseline("key", {"eager": [1.0, math.inf], "compile": None})
    store.save_baseline("key", {"eager": [2.0]})
    assert store.baseline("key") == {"eager": [2.0]}


def test_a_run_with_its_events(store: Store) -> None:
    run = store.create_run("optimize", {"task": TASK.id, "seconds": 10})
    verdict = store.save_verdict(VERDICT, TASK, SOLUTION, run=run)
    for number in (1, 2, 3):
        assert store.append_event(run, "turn" if number != 2 else "verdict", {"n": number}).number == number
    assert [event.payload["n"] for event in store.events(run)] == [1, 2, 3]
    assert [event.payload["n"] for event in store.events(run, "turn")] == [1, 3]
    assert store.verdicts(run=run) == [verdict]


def test_runs_are_listed_newest_first_and_change(store: Store) -> None:
    first, second = store.create_run("optimize", {"n": 1}), store.create_run("train", {"n": 2})
    store.update_run(first, status="finished", result={"verdict": "abc"})
    assert [run.id for run in store.runs()] == [second, first]
    assert [run.id for run in store.runs("optimize")] == [first]
    last = store.last_run()
    assert last and (last.id, last.status, last.result) == (second, "running", None)
    run = store.run(first)
    assert run and (run.status, run.result, run.config) == ("finished", {"verdict": "abc"}, {"n": 1})
    assert run.updated > run.created


def test_an_unknown_run_is_an_error(store: Store) -> None:
    with pytest.raises(UsageError, match="no run 'x'"):
        store.append_event("x", "turn", {})
    with pytest.raises(UsageError, match="no run 'x'"):
        store.update_run("x", status="failed")
    with pytest.raises(Exception, match=r"cannot be used.*(?i:foreign key)"):
        store.save_verdict(VERDICT, TASK, SOLUTION, run="x")
    assert store.verdicts() == [] and store.task(TASK.id) is None, "a failed write leaves nothing behind"


def test_the_store_is_there_when_it_is_opened_again(url: str) -> None:
    with Store(url) as store:
        stored = store.save_verdict(VERDICT, TASK, SOLUTION)
    with Store(url) as store:
        assert store.verdicts() == [stored]
