"""The judge on a GPU: what it must refuse and what it must accept, all on one small task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuda_agent.judge import Judge
from cuda_agent.judge.settings import Settings
from cuda_agent.runtime import BuildCache
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

TASK = Task(
    {
        "model.py": """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(1024))
    def forward(self, x):
        return torch.relu(x * self.weight) * 2 + 1
def get_inputs():
    return [torch.randn(2048, 1024)]
"""
    },
    "scaled",
)
KERNEL = """
extern "C" __global__ void scaled(const float* x, const float* w, float* y, int n, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i] * w[i % columns], 0.f) * 2.f + 1.f;
}
extern "C" __global__ void summed(const float* x, const float* w, float* y, int n, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(y + i, 1.f); atomicAdd(y + i, fmaxf(x[i] * w[i % columns], 0.f) * 2.f); }
}
extern "C" __global__ void spinning(long long cycles) {
  long long start = clock64();
  while (clock64() - start < cycles) {}
}
"""
HEAD = """
import torch
from cuda_agent.runtime import load_kernels
k = load_kernels("kernels/scaled.cu")
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(1024))
"""
LAUNCH = "k.scaled[(n + 255) // 256, 256](x, self.weight, y, n, 1024)"

HONEST = {
    "kernel": f"""
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        {LAUNCH}
        return y
""",
    "torch": """
    def forward(self, x):
        return torch.relu(x * self.weight) * 2 + 1
""",
    "atomics": """
    def forward(self, x):
        y, n = torch.zeros_like(x), x.numel()
        k.summed[(n + 255) // 256, 256](x, self.weight, y, n, 1024)
        return y
""",
    "streams that are waited for": f"""
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        y, n = torch.empty_like(x), x.numel()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            {LAUNCH}
        torch.cuda.current_stream().wait_stream(self.side)
        return y
""",
    "a graph": f"""
    def forward(self, x):
        if not hasattr(self, "graph"):
            n = x.numel()
            self.x = x = x.clone()
            self.y = y = torch.empty_like(x)
            {LAUNCH}
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                {LAUNCH}
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
""",
    "autotuning": """
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        if not hasattr(self, "block"):
            times = {}
            for block in (128, 256, 512):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                k.scaled[(n + block - 1) // block, block](x, self.weight, y, n, 1024)
                end.record()
                torch.cuda.synchronize()
                times[block] = start.elapsed_time(end)
            self.block = min(times, key=times.get)
        k.scaled[(n + self.block - 1) // self.block, self.block](x, self.weight, y, n, 1024)
        return y
""",
    "prepare()": """
    def prepare(self):
        self.twice = self.weight.detach() * 2
    def forward(self, x):
        return torch.relu(x * self.twice) + 1
""",
}

ATTACKS = {
    "a side stream that nobody waits for": (
        f"""
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
        y, n = torch.empty_like(x), x.numel()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            k.spinning[1, 1](2000000)
            {LAUNCH}
        return y
""",
        "forbidden",
    ),
    "a stale graph": (HONEST["a graph"].replace("        self.x.copy_(x)\n", ""), "wrong"),
    "recycled memory": (
        f"""
    def forward(self, x):
        if not hasattr(self, "y"):
            self.y = torch.empty_like(x)
        y, n = self.y, x.numel()
        {LAUNCH}
        return y
""",
        "wrong",
    ),
    "a failed launch": (
        """
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        k.scaled[(n + 4095) // 4096, 4096](x, self.weight, y, n, 1024)
        return y
""",
        "runtime_error",
    ),
    "persisting L2": (
        f"""
    def forward(self, x):
        import ctypes
        ctypes.CDLL("libcuda.so.1").cuCtxSetLimit(6, ctypes.c_size_t(16 << 20))
        y, n = torch.empty_like(x), x.numel()
        {LAUNCH}
        return y
""",
        "forbidden",
    ),
    "TF32 for fp32": (
        """
    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = True
        return torch.relu(x @ torch.diag(self.weight)) * 2 + 1
""",
        "wrong",
    ),
    "outputs on the host": (
        """
    def forward(self, x):
        return (torch.relu(x * self.weight) * 2 + 1).cpu()
""",
        "wrong",
    ),
    "a kernel that stays": (
        f"""
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
            torch.cuda.synchronize = lambda *_: None
            with torch.cuda.stream(self.side):
                for _ in range(200):
                    k.spinning[132, 1](80000000)
        y, n = torch.empty_like(x), x.numel()
        {LAUNCH}
        return y
""",
        "forbidden",
    ),
    "outputs written after the end": (
        f"""
    def forward(self, x):
        if not hasattr(self, "side"):
            self.side = torch.cuda.Stream()
            torch.cuda.synchronize = lambda *_: None
            torch.cuda.Stream.synchronize = lambda *_: None
        y, n = torch.empty_like(x), x.numel()
        k.spinning[1, 1](4000000)
        {LAUNCH}
        return y
""",
        "wrong",
    ),
    "an illegal access": (
        """
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        k.scaled[(n + 255) // 256, 256](x, self.weight, y, 2000000000, 1024)
        k.scaled[8000000, 256](x, self.weight, y, 2000000000, 1024)
        return y
""",
        "runtime_error",
    ),
    "too much memory": (
        """
    def forward(self, x):
        torch.empty(1 << 42, dtype=torch.uint8, device=x.device)
        return torch.relu(x * self.weight) * 2 + 1
""",
        "runtime_error",
    ),
}


def solution(forward: str) -> Solution:
    return Solution({"model_new.py": HEAD + forward, "kernels/scaled.cu": KERNEL})


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(cache=BuildCache(Path(tmp_path_factory.mktemp("cache")))) as judge:
        yield judge


def judged(judge: Judge, forward: str, **settings: Any) -> Verdict:
    return judge.evaluate(TASK, solution(forward), Settings(device="cuda", **settings))


@pytest.mark.parametrize("name", HONEST)
def test_honest_solutions_are_accepted(judge: Judge, name: str) -> None:
    verdict = judged(judge, HONEST[name])
    assert verdict.status is Status.CORRECT and verdict.speedup.eager, verdict.message
    assert verdict.device["type"] == "cuda" and verdict.time_us.candidate and verdict.time_us.eager


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused(judge: Judge, name: str) -> None:
    forward, status = ATTACKS[name]
    verdict = judged(judge, forward)
    assert verdict.status == status, verdict.message
    assert judged(judge, HONEST["kernel"], measure=False).correct  # nothing of it is left


@pytest.mark.parametrize("name", ["torch", "kernel"])
def test_the_rules_see_what_runs_on_a_gpu(judge: Judge, name: str) -> None:
    verdict = judged(judge, HONEST[name], rules="kernels", measure=False)
    assert verdict.status is (Status.CORRECT if name == "kernel" else Status.FORBIDDEN), verdict.message


def test_a_decoy_kernel_beside_torch_is_refused(judge: Judge) -> None:
    forward = f"""
    def forward(self, x):
        y, n = torch.empty_like(x), x.numel()
        {LAUNCH}
        return torch.relu(x * self.weight) * 2 + 1
"""
    assert judged(judge, forward, rules="kernels", measure=False).status is Status.FORBIDDEN
