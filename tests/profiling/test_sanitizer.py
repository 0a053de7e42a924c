"""What sanitizers say, and what becomes of it in a verdict; on a CPU with a real AddressSanitizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuda_agent.judge import Judge
from cuda_agent.judge.settings import Settings
from cuda_agent.profiling import compute_sanitizer
from cuda_agent.profiling.findings import Finding, Looked
from cuda_agent.profiling.process import Ran
from cuda_agent.profiling.sanitizer import Sanitizer, shares_memory, with_findings
from cuda_agent.sandbox import Finished
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Interval, Speedup, Status, Times, Verdict

TASK = Task.from_source("""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 1.5
def get_inputs():
    return [torch.randn(64, 100)]
""")
PYTHON = """
import torch
from cuda_agent.runtime import load_kernels
k = load_kernels("kernels/k.cpp")
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        k.scale(y, x, x.numel())
        return y
"""
KERNEL = """
extern "C" void scale(float* y, const float* x, long n) {
  #pragma omp parallel for
  for (long i = 0; i < n; i++) y[i] = x[i] * 1.5f;
  EXTRA
}
"""


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


def judged(judge: Judge, extra: str) -> Verdict:
    solution = Solution.from_source(PYTHON, {"k.cpp": KERNEL.replace("EXTRA", extra)})
    return judge.evaluate(TASK, solution, Settings(measure=False), inspect=Sanitizer(judge))


def test_nothing_is_found_in_a_sound_kernel(judge: Judge) -> None:
    verdict = judged(judge, "")
    assert verdict.correct and verdict.flags == []
    assert [c.passed for c in verdict.checks if c.name == "sanitize: AddressSanitizer"] == [True]


def test_a_read_behind_the_end_is_found_at_its_line_though_the_outputs_are_right(judge: Judge) -> None:
    verdict = judged(judge, 'asm volatile("" : : "r"(((const int*)x)[n]));')
    assert verdict.status is Status.RUNTIME_ERROR and verdict.stage == "run", verdict
    assert verdict.message.startswith("kernels/k.cpp:5: scale: invalid read of size 4 bytes: heap-buffer-overflow")
    assert verdict.rewards["milestone"] == -1.0 and "inspect" in verdict.seconds


def test_without_kernels_of_its_own_it_says_so(judge: Judge) -> None:
    solution = Solution.from_source(PYTHON.split("from")[0] + "class ModelNew(torch.nn.Module):\n"
                                    "    def forward(self, x):\n        return x.mul(1.5)\n")  # fmt: skip
    verdict = judge.evaluate(TASK, solution, Settings(measure=False), inspect=Sanitizer(judge))
    assert verdict.correct and "no C++ kernels" in " ".join(verdict.flags)


MEMORY = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale(float *, const float *, int)+0x160 in k.cu:6
=========     by thread (31,0,0) in block (7,0,0)
=========     Access at 0x7f6510c00fa0 is out of bounds
=========     and is 4 bytes after the nearest allocation at 0x7f6510c00000 of size 4,000 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at scale(float *, const float *, int)+0x160 in k.cu:6
=========     by thread (30,0,0) in block (7,0,0)
=========     Access at 0x7f6510c00fa4 is out of bounds
=========
========= Invalid __shared__ read of size 8 bytes
=========     at void sums<(int)4>(float *)+0x90
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f01 is misaligned
========= ERROR SUMMARY: 3 errors
"""
OLDER = """========= Invalid __global__ write of size 4 bytes
=========     at 0x60 in /solution/kernels/k.cu:12:fill(float*)
=========     by thread (63,0,0) in block (0,0,0)
=========     Address 0x7f0047 is out of bounds
========= ERROR SUMMARY: 1 error
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at
=========     reversed(float *)+0xb0 in k.cu:28
=========     and Read access at
=========     reversed(float *)+0xc0 in k.cu:30 [1024 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def looked(log: str, check: compute_sanitizer.Check, error: str = "") -> Looked:
    return compute_sanitizer.looked(Ran(Finished(0, "", error), {}, {f"{check}.log": log}), check)


def test_reports_of_memcheck() -> None:
    first, second = looked(MEMORY, "memcheck").of("memory")
    told = (
        "k.cu:6: scale: invalid __global__ write of size 4 bytes (4 bytes after the nearest allocation, of 4,000 bytes)"
    )
    assert str(first) == told
    assert (second.kernel, second.place, second.detail) == ("sums<(int)4>", "", "misaligned")
    (older,) = looked(OLDER, "memcheck").of("memory")
    assert (older.kernel, older.place) == ("fill", "/solution/kernels/k.cu:12")


def test_reports_of_racecheck() -> None:
    for log in (RACE, RACE.replace("at\n=========     ", "at ").replace("=========     and", "========= and")):
        (race,) = looked(log, "racecheck").of("race")
        assert (race.kernel, race.place) == ("reversed", "k.cu:28")
        assert race.what == "race in shared memory between a write and a read at k.cu:30"


def test_a_tool_that_did_not_look_says_why() -> None:
    lost = "========= COMPUTE-SANITIZER\n========= Target application terminated before first instrumented API call\n"
    assert "could not attach" in looked(lost, "memcheck").why
    assert "no summary: killed" in looked("", "memcheck", "killed").why
    clean = looked("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", "memcheck")
    assert (clean.why, list(clean.findings)) == ("", [])


CORRECT = Verdict(
    status=Status.CORRECT,
    speedup=Speedup(eager=Interval(median=2, low=1.9, high=2.1)),
    time_us=Times(candidate=10, eager=20),
)
SOLUTION = Solution.from_source("class ModelNew: pass", {"k.cu": "__shared__ float x[4];"})


def test_an_invalid_access_ends_a_correct_verdict_and_a_race_flags_it() -> None:
    ended = with_findings(CORRECT, [looked(MEMORY, "memcheck")], SOLUTION)
    assert (ended.status, ended.speedup.eager, ended.time_us.candidate) == (Status.RUNTIME_ERROR, None, None)
    assert "k.cu:6: scale" in ended.message
    raced = with_findings(CORRECT, [looked(RACE, "racecheck")], SOLUTION)
    assert raced.correct and raced.speedup == CORRECT.speedup and "reversed" in raced.flags[0]
    assert [check.passed for check in raced.checks] == [False]


def test_a_crash_gets_its_place_and_a_librarys_own_finding_decides_nothing() -> None:
    crashed = Verdict(status=Status.RUNTIME_ERROR, message="an illegal memory access was encountered")
    told = with_findings(crashed, [looked(MEMORY, "memcheck")], SOLUTION).message
    assert told.startswith("an illegal memory access") and "k.cu:6" in told
    vendor = Looked("memcheck", [Finding("memory", "invalid read", "sm90_xmma_gemm_f32")])
    assert with_findings(CORRECT, [vendor], SOLUTION).correct


def test_only_kernels_with_shared_memory_can_race() -> None:
    assert shares_memory(SOLUTION) and not shares_memory(Solution.from_source("class ModelNew: pass"))
