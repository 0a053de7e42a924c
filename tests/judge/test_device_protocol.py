"""The protocol for devices (memory of the parent's own, turns of calls, outboxes), on host memory: no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cuda_agent.judge import Judge, device, prepared
from cuda_agent.judge.device import TESTING
from cuda_agent.judge.expected import FloatLeaf
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.settings import Settings
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

LINEAR = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 32)
    def forward(self, x):
        return torch.relu(self.linear(x)) * 2 + 1
def get_inputs():
    return [torch.randn(128, 64)]
"""
TASKS = {
    "linear": LINEAR,
    "several outputs, strided and numbers": """
import torch
class Model(torch.nn.Module):
    def forward(self, x, scale):
        y = x.double() * scale
        return {"turned": y.t(), "steps": (y[:, ::3], x > 0), "sum": float(x.sum())}
def get_inputs():
    return [torch.randn(24, 36), 3]
""",
    "integers": """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 16)
    def forward(self, index, x):
        return self.table(index) + x, index.bincount(minlength=50)
def get_inputs():
    return [torch.randint(0, 50, (40,)), torch.randn(40, 16)]
""",
    "buffers that a call changes": """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(20)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(64, 20)]
""",
    "inputs that a call changes": """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x.sum(0)
def get_inputs():
    return [torch.randn(64, 20)]
""",
}
FAULTS = {
    "wrong": ("return torch.relu(self.linear(x)) * 2 + 1.001", "wrong", "elements are off"),
    "inputs changed": ("return torch.relu(self.linear(x.add_(1) - 1)) * 2 + 1", "wrong", "changes its inputs"),
    "an error": ("raise ValueError('too bad')", "runtime_error", "too bad"),
    "another shape": ("return torch.relu(self.linear(x))[:5] * 2 + 1", "wrong", "has shape [5, 32]"),
    "a larger output": ("return torch.relu(self.linear(x)).repeat(50, 1)", "wrong", "has shape [6400, 32]"),
    "no tensor": ("return None", "wrong", "the output is None"),
    "a dead process": ("__import__('os')._exit(0)", "runtime_error", "exit"),
}
RECYCLED = """
        y = torch.relu(self.linear(x)) * 2 + 1
        self.y = getattr(self, "y", y)
        return self.y.copy_(y)
"""
LATER_STALE = """
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls < 16 or self.calls % 2:
            self.y = torch.relu(self.linear(x)) * 2 + 1
        return self.y.clone()
"""


def own(task: str) -> str:
    return task.partition("def get_inputs")[0].replace("class Model", "class ModelNew")


def with_body(body: str) -> str:
    return own(LINEAR).replace("        return torch.relu(self.linear(x)) * 2 + 1\n", body)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def judged(judge: Judge, task: str, model: str, **settings: Any) -> Verdict:
    return judge.evaluate(
        Task({"model.py": task}, "task"),
        Solution({"model_new.py": model}),
        Settings(device=TESTING, **{"measure": False, **settings}),
    )


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_itself_is_right(judge: Judge, name: str) -> None:
    verdict = judged(judge, TASKS[name], own(TASKS[name]), mode="train" if "buffers" in name else "eval")
    assert verdict.correct, verdict.message


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(judge: Judge, name: str) -> None:
    line, status, message = FAULTS[name]
    verdict = judged(judge, LINEAR, own(LINEAR).replace("return torch.relu(self.linear(x)) * 2 + 1", line))
    assert verdict.status == status and message in verdict.message, verdict.message


@pytest.mark.slow
def test_calls_are_timed_and_their_outputs_compared(judge: Judge) -> None:
    verdict = judged(judge, LINEAR, own(LINEAR), measure=True)
    assert verdict.correct and verdict.time_us.eager, verdict.message
    assert any("for tests" in flag for flag in verdict.flags)
    (compared,) = [check for check in verdict.checks if check.name == "timed outputs"]
    assert int(compared.detail.split()[0]) > 10
    again = judged(judge, LINEAR, with_body(LATER_STALE), measure=True)
    assert again.status is Status.WRONG and "not those of its inputs" in again.message, again.message


def test_recycled_memory_is_found(judge: Judge) -> None:
    verdict = judged(judge, LINEAR, with_body(RECYCLED))
    assert verdict.status is Status.WRONG and "memory of an earlier output" in verdict.message, verdict.message


@pytest.mark.parametrize("room", [0, 1 << 30])
def test_large_tensors_are_made_again_instead_of_kept(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "LARGE", 1e-9)
    monkeypatch.setattr(device, "free_bytes", lambda name: room)
    found: list[Prepared] = []
    with Judge() as judge:
        for _ in range(2):
            verdict = judged(judge, LINEAR, own(LINEAR), measure=True)
            assert verdict.correct and verdict.time_us.eager, verdict.message
            names = verdict.checks[0].detail
            assert "seed 2" in names and "negated" in names and "few elements" not in names
        wrong = judged(judge, LINEAR, own(LINEAR).replace("* 2 + 1", "* 2 + 1.001"))
        assert wrong.status is Status.WRONG and "elements are off" in wrong.message, wrong.message
        recycled = judged(judge, LINEAR, with_body(RECYCLED))
        assert (recycled.status is Status.WRONG) == (room > 0), recycled.message
        found += [p for p in judge._prepared.values() if isinstance(p, Prepared)]
        assert judged(judge, TASKS["integers"], own(TASKS["integers"])).correct
        assert found[0] not in judge._prepared.values()
    assert found[0].layout.lean and len(found[0].pool) == 2
    assert all(leaf.share > 0 and not len(leaf.want) for s in found[0].samples for leaf in s.expected.leaves
               if isinstance(leaf, FloatLeaf))  # fmt: skip


def test_outputs_for_which_there_is_no_memory_are_the_candidates_fault(judge: Judge) -> None:
    body = """
        import cuda_agent.judge.worker.device_harness as harness
        shown = harness.Harness.describe
        def larger(self, value, with_extra=True):
            reply = shown(self, value, with_extra)
            reply["tensors"][0]["bytes"] = (1 << 40) - 4
            return reply
        harness._OnDevice.describe = larger
        return torch.relu(self.linear(x)) * 2 + 1
"""
    verdict = judged(judge, LINEAR, with_body(body))
    assert verdict.status not in (Status.CORRECT, Status.JUDGE_ERROR), verdict.message
