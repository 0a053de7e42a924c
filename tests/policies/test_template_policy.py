"""The policy in the real loop with the real judge, and what it does without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuda_agent.agent.loop import Episode
from cuda_agent.agent.policy import Message, is_done, load_policy
from cuda_agent.agent.trajectory import Budget
from cuda_agent.agent.workspace import Workspace
from cuda_agent.judge import Judge, Settings
from cuda_agent.policies.template.graph import Graph
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.module import write_solution
from cuda_agent.policies.template.policy import TemplatePolicy, last_object
from cuda_agent.sandbox import SandboxedRunner
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return torch.tanh(self.norm(x)) + x


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return [512]
"""


def test_the_name_leads_here() -> None:
    assert isinstance(load_policy("template"), TemplatePolicy)


def test_in_the_loop_with_the_judge(tmp_path: Path) -> None:
    """Traces, writes and is found correct; the fused version too; a fresh policy would have said the same."""
    task = Task.from_source(SOURCE, "norm_tanh")
    settings = Settings(rules="libraries", measure=False)
    with Store(tmp_path / "store.db") as store, Judge(store=store) as judge:
        run = store.create_run("optimize", {})
        workspace = Workspace(tmp_path / "workspace", task)
        trajectory = Episode(
            task, TemplatePolicy(), judge, settings, workspace, SandboxedRunner(), Budget(evaluations=1), store, run,
            opening(rules="libraries"),
        ).run()  # fmt: skip
        assert [j.verb for j in trajectory.judged] == ["verify"]
        assert trajectory.judged[0].verdict.correct, trajectory.judged[0].verdict.message
        graph = Graph.model_validate_json(workspace.read("graph.json"))
        written = write_solution(graph, Knobs())
        assert len(written.kernels) == 1
        verdict = judge.evaluate(task, Solution(written.files), settings)
        assert verdict.correct, verdict.message
    turns = [i for i, m in enumerate(trajectory.messages) if m["role"] == "assistant"]
    for i in turns:
        assert TemplatePolicy().act(trajectory.messages[:i], [])["content"] == trajectory.messages[i]["content"]


def opening(**facts: Any) -> list[Message]:
    return [{"role": "system", "content": ""}, {"role": "user", "content": f"Begin.\nTASK {json.dumps(facts)}"}]


def answered(messages: list[Message], policy: TemplatePolicy, *answers: str) -> Message:
    """One turn of the policy with these answers to its calls; the next message."""
    messages.append(policy.act(messages, []))
    messages += [{"role": "tool", "tool_call_id": "", "content": a} for a in answers]
    return policy.act(messages, [])


def graph_of(*ops: dict[str, Any]) -> str:
    x = {"name": "x", "shape": [8, 8], "dtype": "float32", "stride": [8, 1]}
    return json.dumps({"inputs": [x], "nodes": ops, "outputs": {"node": ops[-1]["name"]}, "problems": []})


SORT = {
    "name": "sort",
    "op": "aten.msort.default",
    "args": [{"node": "x"}],
    "shape": [8, 8],
    "dtype": "float32",
    "stride": [8, 1],
}


def test_rules_that_forbid_torch_are_respected() -> None:
    policy, messages = TemplatePolicy(), opening(rules="libraries")
    reading = answered(messages, policy, "exit code 0\ngraph.json: 1 operators")
    assert reading["tool_calls"][0]["function"]["name"] == "read"
    final = answered(messages, policy, graph_of(SORT))
    assert is_done(final) and "no rule for aten.msort.default" in final["content"] and "libraries" in final["content"]


def test_an_untraceable_module_is_left_to_torch_where_the_rules_allow_it() -> None:
    policy, messages = TemplatePolicy(), opening(rules="any")
    answered(messages, policy, "exit code 0\ngraph.json: 0 operators")
    reading = answered(messages, policy, json.dumps({"problems": ["a loop over data"]}))
    assert "a loop over data" in reading["content"]
    writing = answered(messages, policy, SOURCE)
    written = json.loads(writing["tool_calls"][0]["function"]["arguments"])
    assert written["path"] == "model_new.py" and "ModelNew = Model" in written["content"]

    policy, messages = TemplatePolicy(), opening(rules="kernels")
    answered(messages, policy, "exit code 0\ngraph.json: 0 operators")
    final = answered(messages, policy, json.dumps({"problems": ["a loop over data"]}))
    assert is_done(final) and "Nothing written" in final["content"]


def test_what_is_wrong_is_not_kept() -> None:
    policy, messages = TemplatePolicy(), opening(rules="any")
    relu = {**SORT, "name": "relu", "op": "aten.relu.default"}
    answered(messages, policy, "exit code 0\n")
    writing = answered(messages, policy, graph_of(relu))
    names = [json.loads(c["function"]["arguments"])["path"] for c in writing["tool_calls"]]
    assert names == ["model_new.py", "kernels/kernels.cpp", "kernels/fast_math.h"]
    asking = answered(messages, policy, *["wrote it"] * 3)
    assert asking["tool_calls"][0]["function"]["name"] == "verify"
    answered(messages, policy, 'wrong (stage compare)\nVERDICT {"schema": 1, "status": "wrong"}')
    for _ in range(20):
        following = answered(messages, policy, *['wrong\nVERDICT {"schema": 1, "status": "wrong"}'] * 3)
        if is_done(following):
            break
    else:
        pytest.fail("it does not end")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ('fine\nVERDICT {"status": "correct", "a": {"b": 1}}', "correct"),
        ('{"status": "first"} and {"status": "last"}', None),
        ("no object", None),
        ("VERDICT {broken", None),
    ],
)
def test_last_object(text: str, status: str | None) -> None:
    found = last_object(text)
    assert found.get("status") == status or (status is None and found.get("status") in (None, "first", "last"))
