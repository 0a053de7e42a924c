"""Which verdict wins, and what the report makes of verdicts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from scripted import SOURCE, TASK

from cuda_agent.agent.report import example, report
from cuda_agent.agent.result import Result
from cuda_agent.agent.tools.judging import describe, verdict_line
from cuda_agent.agent.trajectory import Trajectory
from cuda_agent.errors import UsageError
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Check, Interval, Speedup, Status, Times, Verdict

SOLUTION = Solution.from_source(
    SOURCE.replace("class Model(", "class ModelNew(").replace("features)", "features=256)", 1)
)


def ratio(median: float) -> Interval:
    return Interval(median=median, low=median * 0.98, high=median * 1.02)


def timed(eager: float, compiled: float | None = None, **fields: Any) -> Verdict:
    speedup = Speedup(eager=ratio(eager), compile=ratio(compiled) if compiled else None)
    times = Times(candidate=100.0, eager=100.0 * eager, compile=100.0 * compiled if compiled else None, floor=20.0)
    return Verdict(status=Status.CORRECT, speedup=speedup, time_us=times, **fields)


CORRECT = Verdict(status=Status.CORRECT)
WRONG = Verdict(
    status=Status.WRONG,
    stage="compare",
    message="output 0 differs at [3, 7]: expected 1.5, got 0\nand 40 more",
    checks=[Check(name="seed 2", passed=False, detail="41 of 4096 differ"), Check(name="seed 1", passed=True)],
)


def after(*rows: tuple[str, str, Verdict]) -> Trajectory:
    trajectory = Trajectory()
    for verb, solution, verdict in rows:
        data = verdict.model_dump(mode="json", by_alias=True)
        trajectory.apply("verdict", {"call": "", "verb": verb, "solution": solution, "verdict": data})
    return trajectory


def ids(trajectory: Trajectory) -> list[str]:
    return [judged.solution for judged in trajectory.ranked()]


def test_the_fastest_wins_and_not_the_last() -> None:
    rows = [("profile", "a", timed(2.0, 1.5)), ("profile", "b", timed(3.0, 2.0)), ("profile", "c", timed(1.0, 0.9))]
    assert ids(after(*rows)) == ["b", "a", "c"]


def test_both_baselines_count() -> None:
    rows = [("profile", "a", timed(2.0, 1.0)), ("profile", "b", timed(1.9, 1.5)), ("profile", "c", timed(1.5))]
    assert ids(after(*rows)) == ["b", "c", "a"]
    assert after(*rows).judged[1].score == pytest.approx(math.log(1.9 * 1.5) / 2)


def test_what_was_not_timed_comes_last_and_what_only_builds_never() -> None:
    rows = [("verify", "a", CORRECT), ("compile", "b", CORRECT), ("profile", "c", timed(0.5)), ("verify", "d", CORRECT)]
    assert ids(after(*rows)) == ["c", "d", "a"]
    assert ids(after(("verify", "a", CORRECT), ("profile", "a", timed(2.0)), ("verify", "a", CORRECT))) == ["a"]


def test_once_wrong_is_out() -> None:
    assert ids(after(("profile", "a", timed(9.0)), ("verify", "b", CORRECT), ("verify", "a", WRONG))) == ["b"]
    failed = Verdict(status=Status.JUDGE_ERROR)
    assert ids(after(("profile", "a", timed(9.0)), ("verify", "a", failed))) == ["a"]


def test_what_the_writer_reads() -> None:
    text = describe("verify", WRONG)
    assert text.splitlines() == [
        "wrong (stage compare)",
        "output 0 differs at [3, 7]: expected 1.5, got 0",
        "and 40 more",
        "failed check seed 2: 41 of 4096 differ",
    ]
    rows = describe("profile", timed(2.0, flags=["the machine was loaded"])).splitlines()
    assert rows[0].startswith("correct: 2.00x eager [1.96, 2.04]")
    assert "torch.compile not measured" in rows[3]
    assert rows[-1] == "doubts: the machine was loaded"
    assert describe("compile", CORRECT) == "it builds"


def test_the_line_for_programs_is_a_verdict() -> None:
    verdict = timed(2.0, device={"name": "a" * 5000}, versions={"torch": "2"}, task="abc", id="v1")
    line = verdict_line(verdict)
    assert "\n" not in line and len(line) < 600
    read = Verdict.from_json(line.removeprefix("VERDICT "))
    assert (read.id, read.speedup, read.device) == ("v1", verdict.speedup, {})
    assert Verdict.from_json(verdict_line(WRONG).removeprefix("VERDICT ")).checks == [WRONG.checks[0]]


def result(folder: Path, verdict: Verdict | None, task: Task = TASK) -> Result:
    rows = [("profile", "a", timed(2.0, 1.5)), ("verify", "b", WRONG), ("compile", "c", CORRECT)]
    return Result("run1", task, folder, SOLUTION if verdict else None, verdict, after(*rows))


def test_headlines(tmp_path: Path) -> None:
    def headline(verdict: Verdict | None) -> str:
        return result(tmp_path, verdict).headline()

    assert headline(timed(2.0, 1.5)).startswith("correct: 2.00x eager [1.96, 2.04], 1.50x torch.compile")
    assert headline(timed(2.0, 0.9)).startswith(
        "faster than eager, not shown to be faster than torch.compile: correct: "
    )
    assert headline(timed(1.01, 1.0)).startswith("nothing faster was found; the best correct version: correct: 1.01x")
    assert headline(CORRECT).startswith("nothing faster was found")
    assert headline(None) == "nothing correct was found"


def test_a_report(tmp_path: Path) -> None:
    guards = {"namespaces": True, "seccomp": False}
    verdict = timed(2.0, 1.5, careful=True, flags=["loaded machine"], guards=guards, versions={"torch": "2.13"})
    text = report(result(tmp_path, verdict), "template")
    assert "# scale_relu\n\n**correct: 2.00x eager" in text
    assert "return torch.relu(x * self.weight) + 1.0" in text
    assert "| torch.compile | 150 µs | 1.50× | 1.47 to 1.53 |" in text
    assert "- loaded machine\n- it was judged without these guards, which this machine does not offer: seccomp" in text
    assert "| 2 | 0 s | wrong | – | – | – | output 0 differs at [3, 7]: expected 1.5, got 0 |" in text
    assert "| 3 | 0 s | builds; not verified |" in text
    assert "model, fast = Model(*given).eval(), ModelNew(*given).eval()" in text
    assert "- torch: 2.13" in text
    assert "{{" not in text and "None" not in text


def test_a_report_of_nothing_faster(tmp_path: Path) -> None:
    text = report(result(tmp_path, timed(1.0, 1.0, careful=True)), "template")
    assert "not shown to be faster than eager or torch.compile: keep your module" in text
    text = report(result(tmp_path, timed(1.3, 0.9, careful=True)), "template")
    assert "not shown to be faster than torch.compile: use `torch.compile(model)`" in text


def test_a_report_of_nothing_correct(tmp_path: Path) -> None:
    nothing = result(tmp_path, None)
    text = report(nothing, "template")
    assert "No version passed the judge." in text
    assert "How to use it" not in text
    with pytest.raises(UsageError, match="nothing correct"):
        nothing.load()


@pytest.mark.parametrize("arguments", ["{'features': 256}", "[[256], {}]", "None"])
def test_the_example_runs(tmp_path: Path, arguments: str) -> None:
    import subprocess
    import sys

    source = SOURCE.replace("return [256]", f"return {arguments}")
    if arguments == "None":
        source = SOURCE.partition("def get_init_inputs")[0].replace("self, features", "self, features=256")
    found = result(tmp_path, timed(1.0), Task.from_source(source))
    SOLUTION.write(tmp_path / "best")
    found.task.write(tmp_path / "task")
    (tmp_path / "example.py").write_text(example(found))
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "output 0: (64, 256), largest difference 0\n", done.stderr
