"""compute-sanitizer on a GPU: an access outside of a tensor, a race, and a kernel in which there is nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuda_agent.judge import Judge
from cuda_agent.judge.settings import Settings
from cuda_agent.profiling import compute_sanitizer
from cuda_agent.profiling.sanitizer import Sanitizer
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

TASK = Task.from_source("""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 1.5
def get_inputs():
    return [torch.randn(64, 256)]
""")
PYTHON = """
import torch
from cuda_agent.runtime import load_kernels
k = load_kernels("kernels/k.cu")
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        k.scale[64, 256](x, y, n)
        return y
"""
KERNEL = """
extern "C" __global__ void scale(const float* x, float* y, int n) {
  __shared__ float tile[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x] = x[i] * 1.5f;
  EXTRA
  y[i] = tile[threadIdx.x];
}
"""
NOTHING = "__syncthreads();"
OUTSIDE = "if (i == n - 1 && x[n + 8] == 123456.f) tile[255] = 0.f;"
RACE = "float other = tile[(threadIdx.x + 64) % 256]; if (other == 123456.f) tile[threadIdx.x] = other;"


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def judged(judge: Judge, extra: str) -> Verdict:
    if compute_sanitizer.tool("memcheck") is None:
        pytest.skip("compute-sanitizer is not installed")
    solution = Solution.from_source(PYTHON, {"k.cu": KERNEL.replace("EXTRA", extra)})
    return judge.evaluate(TASK, solution, Settings(device="cuda", measure=False), inspect=Sanitizer(judge))


def test_nothing_is_found_in_a_sound_kernel(judge: Judge) -> None:
    verdict = judged(judge, NOTHING)
    checks = {check.name: check.passed for check in verdict.checks if check.name.startswith("sanitize")}
    assert verdict.correct and checks == {"sanitize: memcheck": True, "sanitize: racecheck": True}, verdict


def test_a_read_outside_of_a_tensor(judge: Judge) -> None:
    verdict = judged(judge, OUTSIDE)
    assert verdict.status is Status.RUNTIME_ERROR, verdict
    assert "scale: invalid __global__ read of size 4 bytes" in verdict.message and "k.cu:6" in verdict.message


def test_a_race_in_shared_memory_is_flagged(judge: Judge) -> None:
    verdict = judged(judge, RACE)
    assert any("racecheck" in flag and "scale" in flag for flag in verdict.flags), verdict
