"""Solutions with Triton kernels through the real judge on a CPU: interpreted, never timed, and compiled for a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("triton")

import triton_solutions as texts

from cuda_agent.judge import Judge, Settings
from cuda_agent.runtime import BuildCache
from cuda_agent.solution import Solution
from cuda_agent.task import Task
from cuda_agent.verdict import Status, Verdict

TASK = Task.from_source(texts.TASK)
QUICK = Settings(measure=False)
NATIVE = Solution.from_source(
    texts.model('from cuda_agent.runtime import load_kernels\nk = load_kernels("kernels/x.py")', "k." + texts.LAUNCH),
    {"x.py": texts.KERNEL},
)
IMPORTED = Solution.from_source(texts.model("from kernels.x import scale_relu"), {"x.py": texts.KERNEL})
SINGLE = Solution.from_source(texts.single())


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(cache=BuildCache(tmp_path_factory.mktemp("cache"))) as judge:
        yield judge


def verdict_on(judge: Judge, source: str, **settings: str) -> Verdict:
    return judge.evaluate(TASK, Solution.from_source(source), Settings(measure=False, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("solution", [NATIVE, IMPORTED, SINGLE], ids=["load_kernels", "import", "single file"])
def test_right_kernels_are_correct_and_not_timed(judge: Judge, solution: Solution) -> None:
    verdict = judge.evaluate(TASK, solution, Settings(rules="kernels"))
    assert verdict.status is Status.CORRECT, verdict.message
    assert verdict.speedup.eager is None and verdict.speedup.compile is None
    assert verdict.time_us.candidate is None and verdict.rewards["milestone"] == 1.0
    assert any("interpreted" in flag for flag in verdict.flags) and "not timed" in verdict.message
    assert [check.passed for check in verdict.checks if check.name == "triton compiles"] == [True]


def test_many_at_once(judge: Judge) -> None:
    wrong = Solution.from_source(texts.single(texts.KERNEL.replace("tl.maximum(value, 0.0)", "value")))
    found = judge.evaluate_many(TASK, [NATIVE, wrong, SINGLE], Settings())
    assert [v.status.value for v in found] == ["correct", "wrong", "correct"], [v.message for v in found]


def test_autotuning_and_heuristics_are_fine(judge: Judge) -> None:
    """Without a GPU Triton itself has no driver to tune with."""
    verdict = verdict_on(judge, texts.single(texts.AUTOTUNED, texts.FREE_LAUNCH), rules="kernels")
    assert verdict.status is Status.CORRECT, verdict.message


@pytest.mark.parametrize("kernel", [texts.LOOPING, texts.LIBDEVICE], ids=["a loop up to an argument", "libdevice"])
def test_what_the_interpreter_lacks_by_itself_is_fine(judge: Judge, kernel: str) -> None:
    verdict = verdict_on(judge, texts.single(kernel))
    assert verdict.status is Status.CORRECT, verdict.message
    assert [check.passed for check in verdict.checks if check.name == "triton compiles"] == [True]


def test_a_benchmark_inside_forward_is_fine(judge: Judge) -> None:
    body = f"""import triton.testing
        device = triton.runtime.driver.active.get_active_torch_device()
        assert triton.testing.do_bench(lambda: self.kernel(x, torch.empty_like(x).to(device))) > 0
        {texts.BODY}"""
    verdict = verdict_on(judge, texts.single(body=body))
    assert verdict.status is Status.CORRECT, verdict.message


@pytest.mark.parametrize("rules", ["libraries", "kernels"])
@pytest.mark.parametrize(
    "body", [texts.DECOY, texts.HIDDEN, texts.COPIED], ids=["beside torch", "torch in a thread", "plain Python"]
)
@pytest.mark.parametrize("kernel", [texts.KERNEL, texts.AUTOTUNED], ids=["plain", "autotuned"])
def test_a_decoy_is_forbidden(judge: Judge, rules: str, body: str, kernel: str) -> None:
    launch = texts.FREE_LAUNCH if kernel is texts.AUTOTUNED else texts.LAUNCH
    verdict = verdict_on(judge, texts.single(kernel, launch, body), rules=rules)
    assert verdict.status is Status.FORBIDDEN, f"{verdict.status}: {verdict.message}"
    if body is texts.COPIED:  # nothing else tells
        assert "decoy" in verdict.message


RUN = "scale_relu.run(x, self.scale, out, x.shape[1], grid=(x.shape[0],), warmup=False, BLOCK=128)"
EXECUTED = """import triton.runtime.interpreter as interpreter
        grid = interpreter.GridExecutor(scale_relu.rewrite(), scale_relu.arg_names, (x.shape[0],))
        grid(x, self.scale, out, x.shape[1], BLOCK=128)"""


@pytest.mark.parametrize("launch", [RUN, EXECUTED], ids=["run", "the interpreter's own"])
def test_kernels_are_left_out_by_every_route(judge: Judge, launch: str) -> None:
    verdict = verdict_on(judge, texts.single(launch=launch, body=texts.COPIED), rules="kernels")
    assert verdict.status is Status.FORBIDDEN and "decoy" in verdict.message, verdict.message
    assert verdict_on(judge, texts.single(launch=launch), rules="kernels").status is Status.CORRECT


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("@triton.jit", "LIMIT = 0.0\n@triton.jit", "Cannot access global variable LIMIT"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, 100)", "power of 2"),
        ("tl.maximum(value, 0.0)", "tl.nothing(value)", "nothing"),
    ],
    ids=["a global that is no constexpr", "no power of two", "no such function"],
)
def test_what_triton_does_not_compile_is_a_build_error(judge: Judge, old: str, new: str, says: str) -> None:
    """The first of these the interpreter accepts."""
    kernel = texts.KERNEL.replace(old, new)
    kernel = kernel.replace("value, 0.0)", "value, LIMIT)") if "LIMIT" in kernel else kernel
    verdict = verdict_on(judge, texts.single(kernel))
    assert (verdict.status, verdict.stage) == (Status.BUILD_ERROR, "build"), verdict.message
    assert says in verdict.message and "model_new.py:" in verdict.message, verdict.message


def test_more_shared_memory_than_a_gpu_has_is_a_build_error(judge: Judge) -> None:
    verdict = verdict_on(judge, texts.single(texts.MATRIX, texts.MATRIX_LAUNCH))
    assert verdict.status is Status.BUILD_ERROR and "shared memory" in verdict.message, verdict.message


def test_errors_name_the_kernels_line(judge: Judge) -> None:
    raising = IMPORTED.files["kernels/x.py"].replace(
        "    inside =", "    assert tl.static_assert(width == 1)\n    inside ="
    )
    files = {**IMPORTED.files, "kernels/x.py": raising + "\nraise RuntimeError('at import')\n"}
    verdict = judge.evaluate(TASK, Solution(files), QUICK)
    assert verdict.status is Status.RUNTIME_ERROR and "kernels/x.py:" in verdict.message, verdict.message
    verdict = judge.evaluate(TASK, Solution({**NATIVE.files, "kernels/x.py": files["kernels/x.py"]}), QUICK)
    assert verdict.status is Status.BUILD_ERROR and verdict.message.startswith("kernels/x.py:"), verdict.message


def test_building_imports_it(judge: Judge) -> None:
    assert judge.build(NATIVE).status is Status.CORRECT
    failing = Solution({**NATIVE.files, "kernels/x.py": texts.KERNEL + "\nmissing\n"})
    verdict = judge.build(failing)
    assert verdict.status is Status.BUILD_ERROR and "missing" in verdict.message, verdict.message
    broken = judge.build(Solution({**NATIVE.files, "kernels/x.py": "import triton\ndef f(:\n"}))
    assert broken.status is Status.BUILD_ERROR and broken.message.startswith("kernels/x.py:2:"), broken.message


def test_a_timeout_says_that_the_interpreter_is_slow(judge: Judge) -> None:
    launch = "scale_relu[(10**6,)](x, self.scale, torch.empty(96 * 10**6), 0, BLOCK=128)"
    solution = Solution.from_source(texts.single(launch=launch))
    settings = Settings(measure=False, call_timeout_s=1.0, first_call_timeout_s=1.0)
    verdict = judge.evaluate(TASK, solution, settings)
    assert verdict.status is Status.TIMEOUT and "interprets" in verdict.message, verdict.message
    assert len(verdict.message.splitlines()) == 1


def test_source_that_is_made_by_exec_is_an_error_of_its_own(judge: Judge) -> None:
    """Triton's compiler reads a kernel's source from its file; the interpreter does without."""
    verdict = verdict_on(judge, texts.model(f"import triton\nexec({texts.KERNEL!r})"))
    assert verdict.status is Status.BUILD_ERROR, verdict.message
    assert "@jit functions should be defined in a Python file" in verdict.message, verdict.message


def test_source_that_is_written_to_a_file_first_is_fine(judge: Judge) -> None:
    made = f"""
import importlib.util, tempfile, triton
with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
    file.write({texts.KERNEL!r})
spec = importlib.util.spec_from_file_location("made", file.name)
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
"""
    verdict = verdict_on(judge, texts.model(made, "made." + texts.LAUNCH), rules="kernels")
    assert verdict.status is Status.CORRECT, verdict.message


def test_workers_start_with_what_was_compiled_and_nothing_that_a_judged_worker_left(judge: Judge) -> None:
    """The one that compiles ahead leaves one mark; each judged one leaves another, which nobody may find."""
    body = "out = self.kernel(x, torch.empty_like(x))\n        return out if {} else out * 0"
    for condition in ("compiled", "marks == 1"):
        source = texts.single(texts.KERNEL + texts.MARKED, body=body.format(condition))
        for _ in range(2):
            verdict = verdict_on(judge, source, rules="kernels")
            assert verdict.status is Status.CORRECT, verdict.message
