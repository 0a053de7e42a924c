"""An exported solution runs where nothing but torch, the standard library and g++ is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cuda_agent.backends import BuildCache, export
from cuda_agent.errors import BuildError

MODEL = """
import torch
from cuda_agent.runtime import load_kernels

kernels = load_kernels("kernels/twice.cpp")

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernels.twice(x, out, x.numel())
        return out
"""
KERNEL = """
#include "c.h"
extern "C" void twice(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = TWO * x[i];
}
"""
FILES = {"model_new.py": MODEL, "kernels/twice.cpp": KERNEL, "kernels/c.h": "#define TWO 2\n"}

CHECK = """
import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p] + [sys.argv.pop()]
import torch, model_new, cuda_agent, importlib.util
assert torch.equal(model_new.ModelNew()(torch.ones(5)), torch.full((5,), 2.0))
loaded = sorted({name.split(".")[0] for name in sys.modules} & {"pydantic", "tree_sitter", "sqlalchemy", "typer"})
print(cuda_agent.__file__, importlib.util.find_spec("cuda_agent.backends"), loaded)
"""


def torch_only(tmp_path: Path) -> Path:
    """A folder of packages with what torch itself needs, and so without this package and its dependencies."""
    packages = tmp_path / "packages"
    packages.mkdir()
    site = Path(torch.__file__).parents[1]
    needed = (
        "torch",
        "torchgen",
        "numpy",
        "numpy.libs",
        "typing_extensions.py",
        "sympy",
        "mpmath",
        "networkx",
        "jinja2",
    )
    for name in (*needed, "markupsafe", "filelock", "fsspec", "functorch"):
        if (site / name).exists():
            (packages / name).symlink_to(site / name)
    return packages


def run_alone(folder: Path, packages: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    # -S: no site-packages, so no editable installation of this package either
    argv = [sys.executable, "-S", "-c", CHECK, str(packages)]
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "CUDA_AGENT_CACHE": str(cache)}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_an_exported_solution_runs_alone(tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    export(FILES, folder, cache=BuildCache(tmp_path / "cache"))
    assert (folder / "kernels/twice.cpp.sig.json").is_file()
    packages = torch_only(tmp_path)
    for cache in (tmp_path / "new", tmp_path / "new"):
        finished = run_alone(folder, packages, cache)
        assert finished.stdout.split() == [str(folder / "cuda_agent/__init__.py"), "None", "[]"], finished.stderr


def test_an_edited_kernel_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    export(FILES, folder, cache=BuildCache(tmp_path / "cache"))
    (folder / "kernels/c.h").write_text("#define TWO 3\n")
    finished = run_alone(folder, torch_only(tmp_path), tmp_path / "new")
    last = finished.stderr.splitlines()[-1]
    assert f"{folder}/kernels/twice.cpp.sig.json is missing or older than its source; run: cuda-agent build" in last


def test_a_solution_without_kernels_is_only_written(tmp_path: Path) -> None:
    export({"model_new.py": "class ModelNew: ..."}, tmp_path / "out", cache=BuildCache(tmp_path / "cache"))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["model_new.py"]


def test_what_does_not_build_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"kernels/twice\.cpp:1:17: error: expected primary"):
        export({**FILES, "kernels/twice.cpp": "int f() { return"}, tmp_path / "out", cache=BuildCache(tmp_path / "c"))
    assert not (tmp_path / "out").exists()
