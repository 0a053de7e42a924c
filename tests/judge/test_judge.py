"""The judge as its users meet it: verdicts, many at once, prepare(), interruptions, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_agent.judge import Judge, Settings
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

TASK = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(256))
    def forward(self, x):
        return torch.tanh(x * self.scale)
def get_inputs():
    return [torch.randn(1024, 256)]
"""
KERNEL = """
#include <cmath>
#include <cstdint>
extern "C" void run(const float* x, const float* w, float* y, int64_t rows, int64_t columns) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) y[r * columns + c] = std::tanh(x[r * columns + c] * w[c]);
}
"""
NATIVE = """
import torch
from cuda_agent.runtime import load_kernels
kernels = load_kernels("kernels/run.cpp")
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.empty(256))
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.run(x, self.scale, y, *x.shape)
        return y
"""
PREPARED = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.empty(256))
    def prepare(self):
        self.folded = self.scale.detach() * 1.0
    def forward(self, x):
        return torch.tanh(x * self.folded)
"""
task = Task.from_source(TASK, "tanh")
native = Solution.from_source(NATIVE, {"run.cpp": KERNEL})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store") / "store.db")


@pytest.fixture(scope="module")
def judge(store: Store) -> Iterator[Judge]:
    with Judge(store=store) as made:
        yield made


def test_a_verdict_says_everything_and_is_stored(judge: Judge, store: Store) -> None:
    verdict = judge.evaluate(task, native, Settings(rules="kernels"))
    assert verdict.status is Status.CORRECT, verdict
    assert verdict.stage == "done"
    eager, times = verdict.speedup.eager, verdict.time_us
    assert eager is not None
    assert eager.low <= eager.median <= eager.high
    assert times.candidate is not None
    assert times.eager is not None
    assert set(verdict.rewards) == {"milestone", "relative", "penalised", "log_speedup", "roofline"}
    assert verdict.provenance["speedup"] == "measured"
    assert {"outputs", "rules", "clock", "timed outputs"} <= {check.name for check in verdict.checks}
    assert verdict.device["name"]
    assert verdict.versions["torch"]
    assert set(verdict.seconds) >= {"task", "build", "run", "compare", "baseline", "time"}
    assert store.verdict(verdict.id) == verdict
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_many_keep_their_order(judge: Judge) -> None:
    wrong = Solution.from_source(NATIVE, {"run.cpp": KERNEL.replace("tanh(", "sinh(")})
    broken = Solution.from_source(NATIVE, {"run.cpp": KERNEL.replace("int64_t r", "int65_t r", 1)})
    crash = Solution.from_source(NATIVE, {"run.cpp": KERNEL.replace("#pragma", "*(volatile int*)8 = 1;\n#pragma")})
    verdicts = judge.evaluate_many(task, [native, wrong, broken, crash, native], Settings(measure=False))
    assert [v.status for v in verdicts] == [
        Status.CORRECT, Status.WRONG, Status.BUILD_ERROR, Status.RUNTIME_ERROR, Status.CORRECT,
    ]  # fmt: skip
    assert "kernels/run.cpp:" in verdicts[2].message
    assert "SIGSEGV" in verdicts[3].message


def test_prepare_runs_after_each_change_of_the_weights(judge: Judge) -> None:
    assert judge.evaluate(task, Solution.from_source(PREPARED), Settings(measure=False)).correct
    lazy = PREPARED.replace("def prepare(self):", "def never(self):").replace(
        "return torch", "hasattr(self, 'folded') or self.never()\n        return torch"
    )
    verdict = judge.evaluate(task, Solution.from_source(lazy), Settings(measure=False))
    assert verdict.status is Status.WRONG, verdict


def test_a_slower_copy_is_slower(judge: Judge) -> None:
    slow = "import time\n" + TASK + "class ModelNew(Model):\n    def forward(self, x):\n        time.sleep(0.1)\n"
    verdict = judge.evaluate(task, Solution.from_source(slow + "        return super().forward(x)\n"))
    assert verdict.correct, verdict
    assert verdict.speedup.eager is not None
    assert verdict.speedup.eager.high < 1
    assert verdict.time_us.candidate is not None
    assert verdict.time_us.candidate > 100_000


def test_missing_guards_are_flagged() -> None:
    with Judge(sandbox="off") as bare:
        verdict = bare.evaluate(task, native, Settings(measure=False))
    assert verdict.correct, verdict
    assert any(flag.startswith("fewer guards") for flag in verdict.flags)
    assert verdict.guards["namespaces"] is False


def test_build_alone(judge: Judge) -> None:
    assert judge.build(native).stage == "build"
    assert judge.build(native).correct
    broken = judge.build(Solution.from_source(NATIVE, {"run.cpp": "int main( {"}))
    assert broken.status is Status.BUILD_ERROR


ENDLESS = """
import sys, time
from cuda_agent.judge import Judge, Settings
from cuda_agent.solution import Solution
from cuda_agent.task import Task
source = {task!r}
loop = source + "class ModelNew(Model):\\n    def forward(self, x):\\n        print('x')\\n        while True: pass\\n"
with Judge() as judge:
    task = Task.from_source(source)
    assert judge.check_task(task) is None
    print("ready", flush=True)
    judge.evaluate(task, Solution.from_source(loop), Settings(first_call_timeout_s=60.0))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_killed_judge_leaves_nothing_running(number: signal.Signals) -> None:
    mark = f"cuda-agent-left-{os.getpid()}-{time.time_ns()}"
    environment = {**os.environ, "CUDA_AGENT_CACHE": os.path.join(tempfile.gettempdir(), mark)}
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS.format(task=TASK)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    time.sleep(1.5)
    before = _group_of(process.pid)
    assert len(before) >= 3, "zygote, keeper and worker should be running"
    process.send_signal(number)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in before):
        time.sleep(0.1)
    left = [pid for pid in before if Path(f"/proc/{pid}").exists()]
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]


def _group_of(root: int) -> list[int]:
    """All descendants, by parents."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        children = [pid for pid, its in parents.items() if its == parent]
        found += children
        waiting += children
    return found


def test_json_is_the_documented_schema(judge: Judge) -> None:
    record = json.loads(judge.evaluate(task, native, Settings(measure=False)).to_json())
    wanted = "schema status message stage speedup time_us rewards flags checks device precision rules protocol"
    assert {*wanted.split(), "versions", "seconds"} <= set(record)
    assert record["speedup"] == {"eager": None, "compile": None}
