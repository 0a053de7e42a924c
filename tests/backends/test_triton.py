"""The Triton backend: what it reads of a file, what importing it finds, and exported solutions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

from cuda_agent.backends import BuildCache, backend_for, export
from cuda_agent.backends.triton import import_once
from cuda_agent.errors import BuildError, SolutionError
from cuda_agent.sandbox import SandboxedRunner, run_plain
from cuda_agent.solution import Solution

EXAMPLE = Path(__file__).parents[2] / "examples/solutions/softmax_bias_scale_triton"
KERNELS = """
import triton
import triton.language as tl
from triton import jit as compiled

@triton.autotune(configs=[triton.Config({"B": 16})], key=[])
@triton.jit
def first(x, B: tl.constexpr): pass

@compiled
def second(y: "tl.constexpr", n): pass

@triton.jit(do_not_specialize=["n"])
def third(n): pass

@staticmethod
def neither(n): pass
"""


def build(folder: Path, kernel: str, text: str) -> list[dict[str, object]]:
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / kernel).write_text(text)
    built = backend_for(kernel).build(folder, kernel, cache=BuildCache(folder / "cache"), runner=run_plain)
    assert built.library is None
    functions: list[dict[str, object]] = built.signatures["functions"]
    return functions


def test_functions_take_the_place_of_signatures(tmp_path: Path) -> None:
    functions = build(tmp_path, "kernels/x.py", KERNELS)
    assert [f["name"] for f in functions] == ["first", "second", "third"]
    kinds = [[(p["name"], p["kind"]) for p in f["parameters"]] for f in functions]  # type: ignore[attr-defined]
    assert kinds == [
        [("x", "argument"), ("B", "constexpr")],
        [("y", "constexpr"), ("n", "argument")],
        [("n", "argument")],
    ]


def test_a_syntax_error_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"^kernels/x\.py:2:7: invalid syntax$"):
        build(tmp_path, "kernels/x.py", "import triton\ndef f(:\n")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SolutionError, match="no kernel source"):
        backend_for("kernels/none.py").build(tmp_path, "kernels/none.py", cache=BuildCache(tmp_path), runner=run_plain)


def test_importing_happens_in_the_sandbox_and_tells_the_line(tmp_path: Path) -> None:
    mark = tmp_path.parent / "mark"
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/good.py").write_text(KERNELS)
    import_once(tmp_path, "kernels/good.py", SandboxedRunner())
    (tmp_path / "kernels/bad.py").write_text(f"import triton\nopen({str(mark)!r}, 'w')\n")
    with pytest.raises(BuildError, match=r"^kernels/bad\.py:2: "):
        import_once(tmp_path, "kernels/bad.py", SandboxedRunner())
    assert not mark.exists()


def test_which_files_are_kernels() -> None:
    files = {"model_new.py": "import torch", "kernels/a.py": "from triton import jit", "kernels/b.py": "import math"}
    solution = Solution({**files, "kernels/c.cpp": "", "h.py": "def f():\n    import triton.language as tl"})
    assert solution.triton == ["h.py", "kernels/a.py"]
    assert solution.kernels == ["h.py", "kernels/a.py", "kernels/c.cpp"]
    assert Solution.from_source("# triton\nx = 'import triton'").triton == []


@pytest.mark.parametrize("plain", [False, True], ids=["load_kernels", "import"])
def test_an_exported_solution_runs_alone(tmp_path: Path, plain: bool) -> None:
    files = dict(Solution.from_path(EXAMPLE).files)
    if plain:
        old = 'from cuda_agent.runtime import load_kernels\n\nk = load_kernels("kernels/softmax.py")'
        assert old in files["model_new.py"]
        files["model_new.py"] = files["model_new.py"].replace(old, "import kernels.softmax as k")
    export(files, tmp_path / "best", cache=BuildCache(tmp_path / "cache"))
    assert (tmp_path / "best/cuda_agent/runtime").is_dir() != plain
    program = """
import torch, model_new
torch.manual_seed(0)
model, x = model_new.ModelNew(40, 0.7), torch.randn(3, 40)
expected = torch.softmax(torch.tanh(x * 0.7) * 4.0 + model.bias, dim=-1)
print(float((model(x) - expected).abs().max()) < 1e-6)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path / "best")}
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout == "True\n", done.stderr
