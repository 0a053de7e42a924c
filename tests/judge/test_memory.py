"""A worker's memory: touched before the first call, beginning elsewhere in each worker, and whose outputs it holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuda_agent.judge import Judge, Settings
from cuda_agent.judge.builds import BuiltSolution, build
from cuda_agent.judge.candidate import Candidate
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.reference import Reference
from cuda_agent.judge.workers import TASK as TASK_FOLDER
from cuda_agent.solution import Solution
from cuda_agent.task import Task

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
        return torch.nn.functional.gelu(x * scale * 1.5)
def get_inputs():
    return [torch.randn(1024, 1024)]
"""
SAYS = """
import resource
class ModelNew(Model):
    def forward(self, x):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        y = super().forward(x)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, y.data_ptr(), flush=True)
        return y
"""
CALLS, WARM_UP, OUTPUT_PAGES = 24, 4, 1024


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


@pytest.fixture(scope="module")
def said(judge: Judge) -> list[list[tuple[int, int]]]:
    """For each of four workers, its calls: page faults, and where the output lay."""
    settings = Settings()
    prepared = judge.prepared(Task.from_source(TASK), settings)
    assert isinstance(prepared, Prepared)
    built = build(judge.workers(), Solution.from_source(TASK + SAYS), judge.cache, require_sandbox=False)
    try:
        return [calls_of(judge, built, prepared, settings) for _ in range(4)]
    finally:
        built.remove()


def calls_of(judge: Judge, built: BuiltSolution, prepared: Prepared, settings: Settings) -> list[tuple[int, int]]:
    candidate = Candidate(judge.workers(), built, prepared, settings)
    try:
        for _ in range(CALLS):
            candidate.check(prepared.samples[0], prepared.states)
        rows = [line.split() for line in candidate.worker.output.text().splitlines()]
    finally:
        candidate.close()
    assert len(rows) == CALLS
    return [(int(faults), int(address)) for faults, address in rows]


def test_no_call_after_the_warm_up_pays_for_new_memory(said: list[list[tuple[int, int]]]) -> None:
    assert max(faults for calls in said for faults, _ in calls[WARM_UP:]) < OUTPUT_PAGES // 4


def test_each_worker_begins_elsewhere(said: list[list[tuple[int, int]]]) -> None:
    """Apart from the multiples of an output's size, by more than what a worker's start itself moves (4 KiB)."""
    places = [calls[0][1] % (OUTPUT_PAGES * 4096) for calls in said]
    assert max(places) - min(places) > 16 << 10


def test_what_is_shown_between_calls_frees_no_output(judge: Judge) -> None:
    """A reference that seemed to reuse its outputs would excuse every candidate that does."""
    settings = Settings()
    prepared = judge.prepared(Task.from_source(TASK), settings)
    assert isinstance(prepared, Prepared)
    workers = judge.workers()
    reference = Reference(
        workers.reference(prepared.folder, "cpu"), settings, workers.inside(prepared.folder, TASK_FOLDER)
    )
    try:
        reference.build(prepared.seed)
        reference.attach(prepared.layout)
        for _ in range(CALLS):
            assert not reference.run(prepared.samples[0].inputs).reuses_output
            reference.ask("buffers")
    finally:
        reference.close()
