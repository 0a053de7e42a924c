"""Tasks that cannot be judged are refused with the reason; oddities of the others are flagged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuda_agent.judge import Judge, Settings
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status

HEAD = "import torch\nfrom torch import nn\n"
MODEL = """
class Model(nn.Module):
    def __init__(self, *args):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
def get_inputs():
    {inputs}
"""


def task(forward: str, init: str = "pass", inputs: str = "return [torch.randn(64, 64)]") -> Task:
    return Task.from_source(HEAD + MODEL.format(init=init, forward=forward, inputs=inputs))


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as made:
        yield made


REFUSED = {
    "random": (task("return x + torch.randn_like(x)"), "random"),
    "dropout in forward": (task("return nn.functional.dropout(x, 0.5, training=True)"), "random"),
    "constant": (task("return torch.ones_like(x)"), "does not depend on the inputs"),
    "hidden constant": (task("return (x - x.mean(1, keepdim=True)).mean(1)"), "does not depend on the inputs"),
    "weightless": (task("return self.layer(x) * 0 + x", "self.layer = nn.Linear(64, 64)"), "weights"),
    "raising inputs": (task("return x", inputs="raise ValueError('no data')"), "no data"),
    "no inputs": (task("return x", inputs="return []"), "get_inputs()"),
    "no list": (task("return x", inputs="return None"), "get_inputs()"),
    "raising forward": (task("raise KeyError('lost')"), "lost"),
    "raising constructor": (task("return x", "raise KeyError('lost')"), "lost"),
    "text as output": (task("return 'hello'"), "output"),
    "object as output": (task("return object()"), "output"),
    "missing package": (Task.from_source("import surely_not_installed\n" + HEAD + MODEL.format(
        init="pass", forward="return x", inputs="return []")), "surely_not_installed"),
    "too large": (task("return torch.empty(1 << 44).fill_(1) + x.sum()"), "memory"),
    "exits": (task("import os; os._exit(0)"), "ends its process"),
    "changing shapes": (task("return x * 2", inputs="import random; return [torch.randn(random.randrange(1, 99999))]"),
                        "shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_with_the_reason(judge: Judge, name: str) -> None:
    refused, reason = REFUSED[name]
    verdict = judge.evaluate(refused, Solution.from_source(refused.source + "\nModelNew = Model\n"))
    assert verdict.status is Status.INVALID_TASK, verdict
    assert reason in verdict.message
    assert verdict.stage == "task"
    assert verdict.rewards == {}
    assert "\n" not in verdict.message.strip()


def test_refused_by_check_task(judge: Judge) -> None:
    found = judge.check_task(REFUSED["random"][0])
    assert found is not None
    assert found.status is Status.INVALID_TASK
    assert judge.check_task(task("return x * 2")) is None


def test_degenerate_tasks_are_flagged_by_the_papers_protocol(judge: Judge) -> None:
    degenerate = REFUSED["hidden constant"][0]
    solution = Solution.from_source(degenerate.source + "\nModelNew = Model\n")
    verdict = judge.evaluate(degenerate, solution, Settings(protocol="paper", measure=False))
    assert verdict.correct, verdict
    assert any("degenerate" in flag for flag in verdict.flags)


def test_an_ignored_input_is_flagged(judge: Judge) -> None:
    source = HEAD + "class Model(nn.Module):\n    def forward(self, x, y):\n        return x.exp()\n"
    source += "def get_inputs():\n    return [torch.randn(99), torch.randn(99)]\n"
    verdict = judge.evaluate(
        Task.from_source(source), Solution.from_source(source + "\nModelNew = Model\n"), Settings(measure=False)
    )
    assert verdict.correct, verdict
    assert any("input 1" in flag for flag in verdict.flags), verdict.flags


def test_an_ignored_weight_is_flagged(judge: Judge) -> None:
    odd = task(
        "return self.a * x + 0 * self.b", "self.a = nn.Parameter(torch.ones(64)); self.b = nn.Parameter(torch.ones(64))"
    )
    verdict = judge.evaluate(odd, Solution.from_source(odd.source + "\nModelNew = Model\n"), Settings(measure=False))
    assert verdict.correct, verdict
    assert any("not depend on b" in flag for flag in verdict.flags), verdict.flags


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_contracts(judge: Judge, precision: str) -> None:
    linear = task("return torch.nn.functional.gelu(self.layer(x))", "self.layer = nn.Linear(64, 64)")
    settings = Settings(precision=precision, measure=False)  # type: ignore[arg-type]
    same = judge.evaluate(linear, Solution.from_source(linear.source + "\nModelNew = Model\n"), settings)
    assert same.correct, same
    coarse = linear.source.replace("self.layer(x)", "self.layer(x.to(torch.float8_e4m3fn).to(x.dtype))")
    assert (
        judge.evaluate(linear, Solution.from_source(coarse + "\nModelNew = Model\n"), settings).status is Status.WRONG
    )


def test_train_mode_judges_the_statistics_too(judge: Judge) -> None:
    norm = task("return self.norm(x)", "self.norm = nn.BatchNorm1d(64)")
    settings = Settings(mode="train", measure=False)
    same = judge.evaluate(norm, Solution.from_source(norm.source + "\nModelNew = Model\n"), settings)
    assert same.correct, same
    lazy = norm.source.replace(
        "self.norm(x)", "(x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt() * self.norm.weight + self.norm.bias"
    )
    verdict = judge.evaluate(norm, Solution.from_source(lazy + "\nModelNew = Model\n"), settings)
    assert verdict.status is Status.WRONG
    assert "running" in verdict.message
