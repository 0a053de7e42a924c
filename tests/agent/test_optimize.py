"""The whole way with the real judge: write, compile, verify, profile, the winner again, the result folder."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted import SOURCE, TASK, do, episode, new_run, play, stop_at

from cuda_agent.agent.optimize import optimize
from cuda_agent.agent.skill import skill_text
from cuda_agent.agent.trajectory import Budget
from cuda_agent.errors import TaskError, UsageError
from cuda_agent.judge import Judge, Settings
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task

ENTRY = """
import torch
from torch import nn
from cuda_agent.runtime import load_kernels

k = load_kernels("kernels/fused.cpp")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        k.fused(x, self.weight, out, x.numel() // x.shape[-1], x.shape[-1])
        return out
"""
KERNEL = """#include <cstdint>
extern "C" void fused(const float* x, const float* w, float* out, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            float v = x[r * columns + c] * w[c];
            out[r * columns + c] = (v > 0 || v != v ? v : 0) + 1.0f;
        }
}
"""


def write(kernel: str = KERNEL) -> list[dict[str, Any]]:
    return [do("write", path="model_new.py", content=ENTRY), do("write", path="kernels/fused.cpp", content=kernel)]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Store(tmp_path_factory.mktemp("judge") / "store.db") as store, Judge(store=store) as made:
        yield made


def answers(trajectory: Any) -> list[str]:
    return [m["content"] for m in trajectory.messages if m["role"] == "tool"]


def test_the_judge_is_asked(tmp_path: Path, judge: Judge) -> None:
    broken = [do("edit", path="kernels/fused.cpp", old_string="1.0f", new_string="1.0g"), do("compile")]
    wrong = [do("edit", path="kernels/fused.cpp", old_string="1.0g", new_string="1.5f"), do("verify")]
    right = [do("edit", path="kernels/fused.cpp", old_string="1.5f", new_string="1.0f"), do("compile"), do("verify")]
    store, run = new_run(tmp_path)
    judge.store = store
    with store:
        policy = play(*write(), *broken, *wrong, *right)
        done = episode(tmp_path, policy, store, run, judge=judge, settings=Settings()).run()
        stored = list(reversed(store.verdicts(run=run)))
        solution = store.solution(done.judged[-1].solution)
    said = answers(done)
    assert said[3].startswith("build_error (stage build)\nkernels/fused.cpp:6:")
    assert said[5].startswith("wrong (stage compare)\n")
    assert said[7].startswith("it builds\nVERDICT {")
    assert said[8].startswith("correct; not timed: use profile\nVERDICT {")
    assert [j.verb for j in done.judged] == ["compile", "verify", "compile", "verify"]
    assert [v.id for v in stored] == [j.verdict.id for j in done.judged]
    assert done.evaluations == 2
    assert solution is not None and solution.files["kernels/fused.cpp"] == KERNEL
    assert done.best is not None and done.best.solution == solution.id


@pytest.mark.slow
def test_profile_looks_into_kernels_when_it_is_asked_to(tmp_path: Path, judge: Judge) -> None:
    store, run = new_run(tmp_path)
    judge.store = store
    with store:
        policy = play(*write(), do("profile", kernels=True), do("verify", kernels=True))
        budget = Budget(turns=60, seconds=250)
        said = answers(episode(tmp_path, policy, store, run, judge=judge, settings=Settings(), budget=budget).run())
    assert said[2].startswith("correct: ") and "\nfused: " in said[2] and "counters need a GPU" in said[2]
    assert said[2].splitlines()[-1].startswith("VERDICT {")
    assert "there is no such argument" in said[3]


def test_a_stored_verdict_is_read_back(tmp_path: Path, judge: Judge) -> None:
    store, run = new_run(tmp_path)
    judge.store = store

    def started(**options: Any) -> Any:
        return episode(tmp_path, play(*write(), do("verify")), store, run, judge=judge, settings=Settings(), **options)

    with store:
        number = 2 + 2 * 3 + 2 + 1
        with pytest.raises(KeyboardInterrupt):
            started(on_event=stop_at(number, KeyboardInterrupt)).run()
        (verdict,) = store.verdicts(run=run)
        assert store.events(run)[-1].kind == "verdict"
        done = started().run()
        assert [v.id for v in store.verdicts(run=run)] == [verdict.id]
    assert done.end == "done"
    assert f'"id":"{verdict.id}"' in answers(done)[2]


def test_an_invalid_task(tmp_path: Path) -> None:
    task = Task.from_source(SOURCE.replace("torch.relu(x * self.weight) + 1.0", "torch.rand_like(x)"), "dice")
    with Store(tmp_path / "store.db") as store:
        with pytest.raises(TaskError, match=r"dice cannot be judged: .*random"):
            optimize(task, policy=play(), store=store, out=tmp_path)
        run = store.last_run()
        assert run is not None and run.status == "failed"


def test_what_cannot_begin(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        with pytest.raises(UsageError, match=r"no policy 'tempalte'; there are: .*template"):
            optimize(TASK, policy="tempalte", store=store, out=tmp_path)
        with pytest.raises(UsageError, match="no run 'x' to go on with"):
            optimize(resume="x", store=store)
        with pytest.raises(UsageError, match="give a task"):
            optimize(store=store)
        (tmp_path / "file").write_text("")
        with pytest.raises(UsageError, match="cannot be made: File exists"):
            optimize(TASK, policy=play(), store=store, out=tmp_path / "file")
        assert store.runs() == []
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".db-wal" and p.suffix != ".db-shm") == [
        "file",
        "store.db",
    ]


@pytest.mark.parametrize(("backend", "kernel_file"), [("cpp", "scale.cpp"), ("triton", "scale.py")])
def test_the_example_of_the_skill_is_right(judge: Judge, backend: str, kernel_file: str) -> None:
    if backend == "triton":
        pytest.importorskip("triton")
    settings = Settings()
    text = skill_text(settings, backend)
    assert text.startswith(f"---\nname: cuda-agent-{backend}\n") and f"kernels/*.{kernel_file[6:]}" in text
    entry, kernel = re.findall(r"```(?:python|cpp)\n(.*?)```", text, re.DOTALL)
    source = SOURCE.replace("torch.relu(x * self.weight) + 1.0", "x * self.weight")
    solution = Solution.from_source(entry, {kernel_file: kernel})
    verdict = judge.evaluate(Task.from_source(source), solution, replace(settings, measure=False))
    assert verdict.correct, verdict.message


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_a_task_to_a_module(tmp_path: Path) -> None:
    import torch

    policy = play(*write(), do("verify"), do("profile"))
    events = []
    with Store(tmp_path / "store.db") as store:
        result = optimize(
            TASK, policy=policy, store=store, out=tmp_path / "runs", on_event=events.append, budget=Budget(seconds=60)
        )
        run = store.run(result.run)
        # all of it is stored, so that going on with a finished run does nothing again
        again = optimize(resume="last", policy=policy, store=store)
        assert len(store.verdicts(run=result.run)) == 3
    assert run is not None and run.status == "finished" and run.result is not None
    assert result.verdict is not None and result.verdict.careful
    assert again.verdict == result.verdict
    assert run.result["verdict"] == result.verdict.id
    assert [e.kind for e in events if e.kind in ("start", "verdict", "end", "confirm", "final")] == (
        ["start", "verdict", "verdict", "end", "confirm", "final"]
    )
    text = (result.folder / "report.md").read_text()
    assert f"**{result.headline()}**" in text
    assert (result.folder / "verdict.json").read_text().startswith('{\n  "schema": 1')
    done = subprocess.run([sys.executable, "-P", result.folder / "example.py"], capture_output=True, text=True)
    assert done.stdout.startswith("output 0: (64, 256), largest difference"), done.stderr
    snippet = text.split("## How to use it")[1].split("```python\n")[1].split("```")[0]
    argv = [sys.executable, "-P", "-c", snippet + "print(tuple(y.shape))"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.stdout == "(64, 256)\n", done.stderr
    assert repr(result) == f"<run {result.run} on {result.task.name}: {result.headline()}; {result.folder}>"

    reference = _reference(result.task)
    fast, x = result.load(reference), torch.randn(64, 256)
    assert torch.allclose(fast(x), reference(x))
    assert not fast.training


def _reference(task: Task) -> Any:
    values: dict[str, Any] = {"__name__": "model"}
    exec(compile(task.source, "model.py", "exec"), values)
    return values["Model"](256).eval()


def test_an_interrupt_leaves_the_best_so_far(tmp_path: Path) -> None:
    def interrupt(event: Any) -> None:
        if event.kind == "verdict":
            raise KeyboardInterrupt

    with Store(tmp_path / "store.db") as store:
        with pytest.raises(KeyboardInterrupt):
            optimize(TASK, policy=play(*write(), do("verify")), store=store, out=tmp_path, on_event=interrupt)
        run = store.last_run()
        assert run is not None and run.status == "interrupted"
        folder = Path(run.config["folder"])
        # another process that goes on with it has the run to itself
        with open(folder / ".lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with pytest.raises(UsageError, match="another process is working on run"):
                optimize(resume=run.id, policy=play(), store=store)
    assert (folder / "best" / "kernels" / "fused.cpp").read_text() == KERNEL
    text = (folder / "report.md").read_text()
    assert "It was interrupted; `cuda-agent optimize --resume` goes on with it." in text
    assert "- this verdict is a quick one: the careful judgement did not take place" in text


@pytest.mark.slow
def test_a_search_that_cannot_be_timed_leaves_a_right_solution(tmp_path: Path) -> None:
    """Triton without a GPU."""
    pytest.importorskip("triton")
    entry, kernel = re.findall(r"```python\n(.*?)```", skill_text(Settings(), "triton"), re.DOTALL)
    task = Task.from_source(SOURCE.replace("torch.relu(x * self.weight) + 1.0", "x * self.weight"))
    files = [do("write", path="model_new.py", content=entry), do("write", path="kernels/scale.py", content=kernel)]
    policy = play(*files, do("compile"), do("verify"), do("profile"))
    with Store(tmp_path / "store.db") as store:
        result = optimize(
            task, policy=policy, store=store, out=tmp_path / "runs", budget=Budget(seconds=200), backend="triton"
        )
    assert result.verdict is not None and result.verdict.correct and result.verdict.speedup.eager is None
    assert result.headline().startswith("nothing faster was found; the best correct version: correct: not timed")
    assert "name: cuda-agent-triton" in (result.folder / "workspace/SKILL.md").read_text()
    assert "it needs PyTorch and Triton, not this program" in (result.folder / "report.md").read_text()
    assert (result.folder / "best/cuda_agent/runtime/triton_kernels.py").is_file()
    argv = [sys.executable, "-P", str(result.folder / "example.py")]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("output 0: (64, 256), largest difference"), done.stderr
