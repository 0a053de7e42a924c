"""Indices, nodes and the functions of fast_math.h."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from cuda_agent.policies.template.index import Index, NeedSplit, NotAffine, flatten, unflatten
from cuda_agent.policies.template.ir import Builder, Const, Reduce, Scan, View, walk
from cuda_agent.policies.template.module import HEADER


def test_indices_through_a_reshape() -> None:
    i, j, k = Index.of("i"), Index.of("j"), Index.of("k")
    ranges = {"i": 4, "j": 6, "k": 5}
    flat = flatten((i, j, k), (30, 5, 1))
    assert flat.text() == "30 * i + 5 * j + k"
    assert unflatten(flat, (24, 5), ranges) == (flatten((i, j), (6, 1)), k)
    with pytest.raises(NeedSplit) as split:
        unflatten(flat, (4, 2, 15), ranges)
    assert (split.value.var, split.value.inner) == ("j", 3)
    with pytest.raises(NotAffine):
        unflatten(flat, (15, 8), ranges)


def test_negative_steps_and_substitution() -> None:
    back = Index.of("i") * -1 + 7
    assert back.text() == "-1 * i + 7"
    assert back.substitute({"i": Index.of("t") + Index.of("t0")}).text() == "-1 * t - 1 * t0 + 7"


def test_equal_computations_are_one_node() -> None:
    b = Builder()
    x = b.input((4, 5), "float32", "x", "argument")
    assert b.point("exp", x) is b.point("exp", x)
    assert b.const(1, "float32") is not b.const(1, "int64")
    assert b.const(0.0, "float32") is not b.const(-0.0, "float32")
    assert b.reshape(b.reshape(x, (20,)), (4, 5)) is x
    assert b.flip(b.flip(x, (0,)), (0,)) is x
    assert isinstance(b.expand(b.const(2, "float32"), (4, 5)), Const)
    mean = b.reduce("sum", x, (1,), keep=False)
    assert isinstance(mean, View) and isinstance(mean.src, Reduce) and mean.src.shape == (4, 1)
    assert walk([mean]) == [x, mean.src, mean]


def test_scans_in_disguise() -> None:
    b = Builder()
    x = b.input((4, 5), "float32", "x", "argument")
    reverse = b.flip(b.scan("sum", b.flip(x, (1,)), 1), (1,))
    assert isinstance(reverse, Scan) and reverse.reverse and reverse.src is x
    cut = b.slice(x, (0, 0), (1, 1), (4, 4))
    exclusive = b.concat((b.const(0, "float32", (4, 1)), b.scan("sum", cut, 1)), 1)
    assert isinstance(exclusive, Scan) and exclusive.exclusive and exclusive.src is x


FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "exp": (torch.exp, 3),
    "expm1": (torch.expm1, 4),
    "log": (torch.log, 3),
    "log1p": (torch.log1p, 4),
    "sigmoid": (torch.sigmoid, 4),
    "tanh": (torch.tanh, 8),
    "erf": (torch.erf, 8),
    "softplus": (lambda x: F.softplus(x, threshold=1e9), 5),
    "mish": (F.mish, 20),
    "silu": (F.silu, 5),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("fast_math")
    lines = ['#pragma GCC optimize("no-math-errno,no-trapping-math")', f'#include "{HEADER}"']
    for name in FUNCTIONS:
        lines.append(f'extern "C" void {name}_(const float* __restrict x, float* __restrict y, int64_t n) {{')
        lines.append(f"    #pragma omp simd\n    for (int64_t i = 0; i < n; ++i) y[i] = fast::{name}(x[i]);\n}}")
    (folder / "f.cpp").write_text("\n".join(lines))
    command = ["g++", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-fopt-info-vec", "f.cpp", "-o", "f.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr.count("loop vectorized") >= len(FUNCTIONS)
    return ctypes.CDLL(str(folder / "f.so"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fast_math(name: str, library: ctypes.CDLL) -> None:
    exact, ulps = FUNCTIONS[name]
    torch.manual_seed(0)
    normal = torch.cat([torch.randn(20000) * s for s in (1e-6, 1e-2, 1, 10, 80)])
    x = normal.abs() if name.startswith("log") else normal
    y, oracle = _call(library, name, x), exact(x.double())
    sure = (oracle.abs() > 1e-35) & (oracle.abs() < 3.4e38)
    error = ((y.double() - oracle).abs() / oracle.abs())[sure].max().item()
    assert error < ulps * 2.0**-24
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1e38, -1e38, 100.0, -100.0, 3e-39, 1e-44])
    torch.testing.assert_close(
        _call(library, name, odd), exact(odd.double()).float(), equal_nan=True, rtol=1e-6, atol=1e-37
    )


def _call(library: ctypes.CDLL, name: str, x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    pointers = ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())
    getattr(library, f"{name}_")(*pointers, ctypes.c_int64(x.numel()))
    return y
