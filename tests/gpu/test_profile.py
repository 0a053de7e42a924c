"""Profiles on a GPU: with the counters of Nsight Compute where they may be read, else with times alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuda_agent.judge import Judge
from cuda_agent.judge.settings import Settings
from cuda_agent.profiling import Profile, ncu, profile
from cuda_agent.solution import Solution
from cuda_agent.task import Task

ROWS, COLUMNS = 8192, 4096
TASK = Task.from_source(f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 1.5 + 0.25
def get_inputs():
    return [torch.randn({ROWS}, {COLUMNS})]
""")
PYTHON = """
import torch
from cuda_agent.runtime import load_kernels
k = load_kernels("kernels/k.cu")
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        k.NAME[GRID, 256](x, y, n)
        return y
"""
KERNELS = """
extern "C" __global__ void stream(const float* in, float* out, int n) {
  const float4* x = reinterpret_cast<const float4*>(in);
  float4* y = reinterpret_cast<float4*>(out);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (4 * i >= n) return;
  float4 v = x[i];
  v.x = fmaxf(v.x, 0.f) * 1.5f + 0.25f; v.y = fmaxf(v.y, 0.f) * 1.5f + 0.25f;
  v.z = fmaxf(v.z, 0.f) * 1.5f + 0.25f; v.w = fmaxf(v.w, 0.f) * 1.5f + 0.25f;
  y[i] = v;
}
extern "C" __global__ void strided(const float* x, float* y, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, each = n / (gridDim.x * blockDim.x);
  for (int i = 0; i < each; i++) y[t * each + i] = fmaxf(x[t * each + i], 0.f) * 1.5f + 0.25f;
}
"""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def profiled(judge: Judge, name: str, grid: str) -> Profile:
    source = PYTHON.replace("NAME", name).replace("GRID", grid)
    solution = Solution.from_source(source, {"k.cu": KERNELS})
    return profile(judge, TASK, solution, Settings(device="cuda", measure=False))


def test_a_kernel_that_streams(judge: Judge) -> None:
    found = profiled(judge, "stream", "(n // 4 + 255) // 256")
    kernel = found.kernels[0]
    assert "stream" in kernel.name and kernel.launches == 1
    assert found.call.floor_us and 0.5 < kernel.time_us / found.call.floor_us < 3
    assert found.ceilings and found.ceilings.flops_per_second["fp32"] > 1e12
    if found.counters == "torch":
        assert found.notes and kernel.bound is None
        return
    assert kernel.bound == "memory" and 0.5 < (kernel.roof.memory_share or 0) < 1.2
    needed = 2 * 4 * ROWS * COLUMNS
    assert 0.8 * needed < (kernel.dram_bytes or 0) < 1.3 * needed
    assert kernel.occupancy.achieved and kernel.occupancy.theoretical and kernel.occupancy.registers
    assert kernel.stalls and kernel.stalls[0].cycles > 0


def test_uncoalesced_accesses_are_told(judge: Judge) -> None:
    found = profiled(judge, "strided", "512")
    if found.counters == "torch":
        pytest.skip(found.notes[0])
    assert "uncoalesced" in "\n".join(found.kernels[0].advice)


def test_ncu_is_where_the_toolkit_is() -> None:
    tool = ncu.tool()
    if tool is None:
        pytest.skip("ncu is not installed")
    assert tool.argv[0].endswith("ncu") and "--csv" in tool.argv
