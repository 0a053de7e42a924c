"""`load_kernels` of Triton files in processes of their own, as a solution's user has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

KERNEL = """
import triton
import triton.language as tl
{imports}

@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, factor() * tl.load(x + i, mask=i < n), mask=i < n)

def helper(x):
    return x
"""
FACTOR = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef factor():\n    return 2.0\n"
MODEL = """
import torch
from cuda_agent.runtime import load_kernels

k = load_kernels("kernels/twice.py")

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k.twice[(3,)](x, out, x.numel(), BLOCK=16)
        return out
"""
CHECK = """
import torch, model_new
assert torch.equal(model_new.ModelNew()(torch.ones(40)), torch.full((40,), 2.0))
print(dir(model_new.k), model_new.k)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "model_new.py").write_text(MODEL)
    (tmp_path / "kernels/twice.py").write_text(KERNEL.format(imports="from .factors import factor"))
    (tmp_path / "kernels/factors.py").write_text(FACTOR)
    return tmp_path


def run(folder: Path, program: str = CHECK, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    environment |= {"TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(folder / "cache"), **variables}
    argv = [sys.executable, "-c", program]
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("imports", ["from .factors import factor", "from kernels.factors import factor"])
def test_functions_are_launched_by_name(folder: Path, imports: str) -> None:
    (folder / "kernels/twice.py").write_text(KERNEL.format(imports=imports))
    done = run(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['twice'] <Triton functions of kernels/twice.py: twice>\n"


def test_the_path_is_relative_to_the_calling_file(folder: Path) -> None:
    done = run(folder, f"import sys; sys.path.insert(0, {str(folder)!r}); import os; os.chdir('/')" + CHECK)
    assert done.returncode == 0, done.stderr


def test_an_edited_file_is_another_module(folder: Path) -> None:
    program = """
import torch
from cuda_agent.runtime import load_kernels
def now():
    out = torch.empty(16)
    load_kernels("kernels/twice.py").twice[(1,)](torch.ones(16), out, 16, BLOCK=16)
    return out[0].item()
first, again = now(), load_kernels("kernels/twice.py")
assert again._module is load_kernels("kernels/twice.py")._module
open("kernels/factors.py", "a").write("\\n@triton.jit\\ndef factor():\\n    return 3.0\\n")
print(first, now())
"""
    done = run(folder, program)
    assert done.stdout == "2.0 3.0\n", done.stderr


def test_a_missing_function_is_named_with_those_there_are(folder: Path) -> None:
    done = run(folder, "import model_new; model_new.k.thrice")
    expected = "AttributeError: kernels/twice.py defines no 'thrice'; its Triton functions are: twice"
    assert done.stderr.splitlines()[-1].startswith(expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import triton\n\nmissing\n", "kernels/twice.py:3: NameError: name 'missing' is not defined"),
        ("import triton\ndef f(:\n", "kernels/twice.py:2:7: invalid syntax"),
    ],
)
def test_what_fails_in_the_file_is_one_line_with_its_place(folder: Path, text: str, says: str) -> None:
    (folder / "kernels/twice.py").write_text(text)
    assert run(folder).stderr.splitlines()[-1].endswith(f"KernelBuildError: {says}")


def test_a_name_that_cannot_be_imported_is_said_to_be_one(folder: Path) -> None:
    (folder / "kernels/twice.py").rename(folder / "kernels/two-fold.py")
    done = run(folder, "from cuda_agent.runtime import load_kernels; load_kernels('kernels/two-fold.py')")
    assert "its name has to be an identifier" in done.stderr.splitlines()[-1]


def test_without_a_gpu_one_line_says_how_to_interpret(folder: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    line = run(folder, TRITON_INTERPRET="0").stderr.splitlines()[-1]
    assert "kernels/twice.py: there is no GPU for Triton" in line and "TRITON_INTERPRET=1" in line


def test_autotuning_works_without_a_gpu(folder: Path) -> None:
    tuned = "@triton.autotune([triton.Config({'BLOCK': b}) for b in (16, 32)], key=['n'])\n@triton.jit\ndef twice"
    kernel = (folder / "kernels/twice.py").read_text().replace("@triton.jit\ndef twice", tuned)
    (folder / "kernels/twice.py").write_text(kernel)
    (folder / "model_new.py").write_text(MODEL.replace(", BLOCK=16", ""))
    done = run(folder)
    assert done.returncode == 0, done.stderr
