"""Profiles on a CPU: real ones, of solutions that work, fail and cheat."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cuda_agent.errors import TaskError
from cuda_agent.judge import Judge
from cuda_agent.judge.settings import Settings
from cuda_agent.profiling import Profile, SolutionFailed, profile, try_words, words
from cuda_agent.sandbox import SandboxedRunner
from cuda_agent.solution import Solution
from cuda_agent.task import Task

TASK = Task.from_source("""
import torch
class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
    def forward(self, x):
        return torch.relu(self.linear(x)) * 1.5
def get_inputs():
    return [torch.randn(2048, 256)]
def get_init_inputs():
    return [256]
""")
HEAD = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
    def forward(self, x):
"""
OWN = """
from cuda_agent.runtime import load_kernels
k = load_kernels("kernels/k.cpp")
"""
KERNEL = """
extern "C" void finish(float* y, long n) {
  #pragma omp parallel for
  for (long i = 0; i < n; i++) y[i] = (y[i] > 0 ? y[i] : 0) * 1.5f;
}
"""
SETTINGS = Settings(measure=False)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def solution(body: str) -> Solution:
    return Solution.from_source(HEAD + body)


def test_a_solution_with_a_kernel_of_its_own(judge: Judge) -> None:
    body = "        y = self.linear(x)\n        k.finish(y, y.numel())\n        return y\n"
    mine = Solution.from_source(OWN + HEAD + body, {"k.cpp": KERNEL})
    found = profile(judge, TASK, mine, SETTINGS)
    times = {kernel.name: kernel for kernel in found.kernels}
    assert {"finish", "aten::addmm"} <= set(times)
    assert times["finish"].launches == 1 and 0 < times["finish"].time_us < found.call.solution_us * 3  # type: ignore[operator]
    assert sum(kernel.share for kernel in found.kernels) <= 1 + 1e-6
    assert "aten::relu" in {kernel.name for kernel in found.reference}
    assert found.call.matmul_flops == 2 * 2048 * 256 * 256 and found.call.matmul_us
    assert found.call.necessary_bytes == 2 * 2048 * 256 * 4
    assert found.ceilings and found.ceilings.bytes_per_second > 1e8
    assert found.counters == "torch" and found.kernels[0].bound is None and found.kernels[0].dram_bytes is None
    assert "counters need a GPU" in found.notes[0]
    assert Profile.model_validate_json(found.to_json()) == found
    assert any("finish" in line for line in words(found))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("        return missing", "NameError: name 'missing' is not defined .*model_new.py:8"),
        ("        import os; os._exit(3)", "ended the process"),
        ("        import ctypes; ctypes.string_at(0)", "ended the process"),
    ],
)
def test_a_solution_that_fails_is_one_line(judge: Judge, body: str, message: str) -> None:
    with pytest.raises(SolutionFailed, match=message) as caught:
        profile(judge, TASK, solution(body), SETTINGS)
    assert "\n" not in str(caught.value)
    assert try_words(judge, TASK, solution(body), SETTINGS)[0].startswith("no profile: ")


def test_what_it_leaves_is_not_trusted(judge: Judge) -> None:
    """It ends its process after it put a link where the driver's answer should lie, or an answer of its own."""
    link = "        import os; os.symlink('/etc/passwd', '/workspace/result.json'); os._exit(0)"
    with pytest.raises(SolutionFailed, match="ended the process"):
        profile(judge, TASK, solution(link), SETTINGS)
    rows = '{"call_us": "soon", "rows": [{"name": 3, "calls": "many"}, 7, {"name": "own", "calls": 1, "us": 2}]}'
    own = f"        import os; open('/workspace/result.json', 'w').write('{rows}'); os._exit(0)"
    found = profile(judge, TASK, solution(own), SETTINGS)
    assert found.call.solution_us is None and [kernel.name for kernel in found.kernels] == ["own"]


def test_it_sees_neither_the_host_nor_a_network(judge: Judge) -> None:
    body = """
        import os, socket
        assert not os.path.exists("/root/.bashrc") and os.getuid() != 0
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))  # what the parts of a profiler talk by
        try:
            socket.create_connection(("192.0.2.1", 80), timeout=1)
        except OSError:
            return torch.relu(self.linear(x)) * 1.5
"""
    if not judge.workers().isolate or os.geteuid() != 0:
        pytest.skip("there are no namespaces here")
    assert profile(judge, TASK, solution(body), SETTINGS).call.solution_us


def test_a_task_that_cannot_be_judged(judge: Judge) -> None:
    constant = Task.from_source(TASK.source.replace("torch.relu(self.linear(x)) * 1.5", "torch.ones(3)"))
    with pytest.raises(TaskError):
        profile(judge, constant, solution("        return torch.ones(3)"), SETTINGS)


def test_without_isolation_a_runner_uses_no_namespaces(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    for isolate in (True, False):
        done = SandboxedRunner(isolate=isolate)(["sh", "-c", "echo $$ $(pwd)"], cwd=folder, timeout_s=30)
        assert (done.stdout.split()[1] == "/workspace") is isolate
