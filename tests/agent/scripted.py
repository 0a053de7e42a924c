"""A policy that plays a list of messages through the real loop, and what the tests need around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda_agent.agent.loop import Episode
from cuda_agent.agent.policy import Message, ReplayedPolicy, Script, call, done, says
from cuda_agent.agent.tools import TOOLS, Context, Observation, call_tool
from cuda_agent.agent.trajectory import Budget, Trajectory
from cuda_agent.agent.workspace import Workspace
from cuda_agent.sandbox import run_plain
from cuda_agent.store import Event, Store
from cuda_agent.task import Task

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features))

    def forward(self, x):
        return torch.relu(x * self.weight) + 1.0


def get_inputs():
    return [torch.randn(64, 256)]


def get_init_inputs():
    return [256]
"""
TASK = Task.from_source(SOURCE, "scale_relu")
OPENING: list[Message] = [{"role": "system", "content": "Work."}, {"role": "user", "content": "Begin.\nTASK {}"}]


def play(*messages: Message) -> ReplayedPolicy:
    """Plays the messages one after the other, whatever the tools answer, then says that it is done."""

    def script(_opening: list[Message]) -> Script:
        for message in messages:
            _results = yield message
        yield done()

    return ReplayedPolicy(script)


def do(name: str, **arguments: Any) -> Message:
    """A message with one tool call."""
    return says("", call(name, **arguments))


def new_run(folder: Path) -> tuple[Store, str]:
    store = Store(folder / "store.db")
    return store, store.create_run("optimize", {})


def episode(
    folder: Path, policy: Any, store: Store, run: str, *, judge: Any = None, settings: Any = None, **options: Any
) -> Episode:
    """An episode in `folder` that goes on from what the store holds of `run`."""
    trajectory = Trajectory()
    for event in store.events(run):
        trajectory.apply(event.kind, event.payload)
    workspace = Workspace(folder / "workspace", TASK, "rules")
    fields = {"runner": run_plain, "budget": Budget(turns=60, seconds=60), "opening": OPENING, **options}
    return Episode(TASK, policy, judge, settings, workspace, store=store, run_id=run, trajectory=trajectory, **fields)


def run_new(folder: Path, policy: Any, **options: Any) -> Trajectory:
    store, run = new_run(folder)
    with store:
        return episode(folder, policy, store, run, **options).run()


def use(workspace: Workspace, name: str, arguments: str, *, number: int = 1, runner: Any = run_plain) -> Observation:
    """One tool call outside any loop; files that it writes are put in place."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("no verdict is expected here")

    context = Context(workspace, runner, None, TASK, None, "", number, 60.0, refuse)  # type: ignore[arg-type]
    observation = call_tool(TOOLS, name, arguments, context)
    workspace.write(observation.writes)
    return observation


def stop_at(number: int, error: Callable[[], BaseException]) -> Callable[[Event], None]:
    """A listener that raises when the event with that number has been stored."""

    def listen(event: Event) -> None:
        if event.number == number:
            raise error()

    return listen
