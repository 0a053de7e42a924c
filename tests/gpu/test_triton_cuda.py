"""Triton solutions on a GPU: compiled ahead, launched and timed; decoys are refused, compile errors build errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))

import triton_solutions as texts

from cuda_agent.judge import Judge, Settings
from cuda_agent.runtime import BuildCache
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

TASK = Task.from_source(texts.TASK)
LOADED = texts.model(
    'from cuda_agent.runtime import load_kernels\nk = load_kernels("kernels/x.py")', "k." + texts.LAUNCH
)
WARMED = """if not hasattr(self, "compiled"):
            self.compiled = scale_relu.warmup(x, self.scale, out, x.shape[1], BLOCK=128, grid=(1,))
            self.compiled._init_handles()
        self.compiled[(x.shape[0], 1, 1)](x, self.scale, out, x.shape[1], 128)"""
"""As in Triton's tutorial of a persistent softmax."""
RUN = "scale_relu.run(x, self.scale, out, x.shape[1], grid=(x.shape[0],), warmup=False, BLOCK=128)"
LAUNCHES = {
    "plain": (texts.KERNEL, texts.LAUNCH),
    "autotuned": (texts.AUTOTUNED, texts.FREE_LAUNCH),
    "run": (texts.KERNEL, RUN),
    "compiled by hand": (texts.KERNEL, WARMED),
}
DROPPED = f"""out = self.kernel(x, torch.empty_like(x))
        return {texts.TORCH}"""
HOST = """self.kernel(x, torch.empty_like(x))
        torch.cuda.current_stream().synchronize()
        import ctypes
        n, w = x.shape
        driver = ctypes.CDLL("libcuda.so.1")
        a, s, o = (ctypes.c_float * (n * w))(), (ctypes.c_float * w)(), (ctypes.c_float * (n * w))()
        out = torch.empty_like(x)
        driver.cuMemcpyDtoH_v2(a, ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(4 * n * w))
        driver.cuMemcpyDtoH_v2(s, ctypes.c_void_p(self.scale.data_ptr()), ctypes.c_size_t(4 * w))
        for i in range(n * w):
            o[i] = max(a[i] * s[i % w], 0.0)
        driver.cuMemcpyHtoD_v2(ctypes.c_void_p(out.data_ptr()), o, ctypes.c_size_t(4 * n * w))
        return out"""
"""Computes in plain Python beside a kernel whose answer is dropped; only leaving that out tells."""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(cache=BuildCache(tmp_path_factory.mktemp("cache"))) as judge:
        yield judge


def verdict_on(judge: Judge, solution: Solution | str, **settings: str) -> Verdict:
    solution = Solution.from_source(solution) if isinstance(solution, str) else solution
    return judge.evaluate(TASK, solution, Settings(device="cuda", measure=False, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LAUNCHES)
def test_honest_kernels_are_right(judge: Judge, name: str) -> None:
    verdict = verdict_on(judge, texts.single(*LAUNCHES[name]), rules="kernels")
    assert verdict.status is Status.CORRECT, verdict.message
    assert [c.passed for c in verdict.checks if c.name == "triton compiles"] == [True], verdict.checks


def test_they_are_timed(judge: Judge) -> None:
    solution = Solution.from_source(LOADED, {"x.py": texts.KERNEL})
    verdict = judge.evaluate(TASK, solution, Settings(device="cuda", rules="kernels"))
    assert verdict.status is Status.CORRECT and verdict.speedup.eager is not None, verdict.message
    assert not any("interpreted" in flag for flag in verdict.flags)


@pytest.mark.parametrize("rules", ["libraries", "kernels"])
@pytest.mark.parametrize("body", [texts.DECOY, DROPPED], ids=["on one row", "dropped"])
def test_a_decoy_beside_torch_is_forbidden(judge: Judge, rules: str, body: str) -> None:
    verdict = verdict_on(judge, texts.single(body=body), rules=rules)
    assert verdict.status is Status.FORBIDDEN, verdict.message


@pytest.mark.parametrize("name", LAUNCHES)
def test_kernels_are_left_out_by_every_route(judge: Judge, name: str) -> None:
    verdict = verdict_on(judge, texts.single(*LAUNCHES[name], body=HOST), rules="kernels")
    assert verdict.status is Status.FORBIDDEN and "decoy" in verdict.message, verdict.message


@pytest.mark.parametrize(
    ("kernel", "launch", "says"),
    [
        (texts.KERNEL.replace("tl.arange(0, BLOCK)", "tl.arange(0, 100)"), texts.LAUNCH, "power of 2"),
        (texts.MATRIX, texts.MATRIX_LAUNCH, "shared memory"),
    ],
    ids=["compiler", "resources"],
)
def test_what_does_not_compile_is_a_build_error(judge: Judge, kernel: str, launch: str, says: str) -> None:
    verdict = verdict_on(judge, texts.single(kernel, launch))
    assert (verdict.status, verdict.stage) == (Status.BUILD_ERROR, "build"), verdict.message
    assert says in verdict.message


def test_later_workers_start_with_what_was_compiled(judge: Judge) -> None:
    body = "out = self.kernel(x, torch.empty_like(x))\n        return out if compiled and marks == 1 else out * 0"
    for _ in range(2):
        verdict = verdict_on(judge, texts.single(texts.KERNEL + texts.MARKED, body=body), rules="kernels")
        assert verdict.status is Status.CORRECT, verdict.message


def test_on_the_cpu_of_this_machine_they_are_interpreted(judge: Judge) -> None:
    verdict = judge.evaluate(TASK, Solution.from_source(texts.single()), Settings(rules="kernels"))
    assert verdict.status is Status.CORRECT and verdict.speedup.eager is None, verdict.message
