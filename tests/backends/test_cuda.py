"""CUDA sources on a machine that may have no GPU: what is built with what, signatures, resources and errors."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from cuda_agent.backends import BuildCache, Built, get_backend
from cuda_agent.backends.cuda_signatures import plain_name
from cuda_agent.errors import BuildError
from cuda_agent.runtime.cuda_build import nvcc_path
from cuda_agent.runtime.nvcc_messages import cut_nvcc
from cuda_agent.sandbox import SandboxedRunner

HAS_NVRTC = all(importlib.util.find_spec(name) for name in ("cuda", "cuda.core"))
needs_a_compiler = pytest.mark.skipif(not HAS_NVRTC and nvcc_path() is None, reason="there is no CUDA compiler")
needs_nvcc = pytest.mark.skipif(nvcc_path() is None, reason="there is no nvcc")

DEVICE = """
#include <cstdint>
#include <cmath>
#include "more.cuh"
__device__ float twice(float x) { return 2 * x; }
extern "C" __global__ void scale(float* __restrict__ out, const float* x, float s, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = s * twice(x[i]) + sqrtf(x[i]);
}
__global__ void __launch_bounds__(128) plain(int* out, bool on) { out[0] = on; }
// launched by others as plain<<<1, 1>>>(out, true)
namespace inner { __global__ void spaced(int* out) { out[0] = 1; } }
template <int N> __global__ void templated(int* out) { out[0] = N; }
"""
MORE = "#pragma once\n__global__ void in_a_header(double* out) { out[0] = 1; }\n"
HOST = """
#include <cuda_runtime.h>
#include <vector>
__global__ void add(float* out, int n) { if (threadIdx.x < n) out[threadIdx.x] += 1; }
extern "C" int run(float* out, int n, cudaStream_t stream) { add<<<1, 256, 0, stream>>>(out, n); return n; }
static void helper() {}
"""


def build(folder: Path, text: str, **more: str) -> Built:
    (folder / "kernels").mkdir(exist_ok=True)
    for name, content in {"k.cu": text, **{f"{n}.cuh": c for n, c in more.items()}}.items():
        (folder / "kernels" / name).write_text(content)
    cache = BuildCache(folder / "cache")
    return get_backend("cuda").build(folder, "kernels/k.cu", cache=cache, runner=SandboxedRunner())


@needs_a_compiler
def test_device_code_becomes_a_cubin_with_what_it_takes(tmp_path: Path) -> None:
    built = build(tmp_path, DEVICE, more=MORE)
    assert built.library.name == "kernel.cubin" and built.library.read_bytes()[:4] == b"\x7fELF"
    functions = {f["name"]: f for f in built.signatures["functions"]}
    assert set(functions) == {"scale", "plain", "in_a_header", "spaced"} and all(
        f["launch"] for f in functions.values()
    )
    assert functions["scale"]["symbol"] == "scale" and functions["plain"]["symbol"].startswith("_Z5plain")
    kinds = [(p["kind"], p["dtype"], p["const"]) for p in functions["scale"]["parameters"]]
    assert kinds == [("pointer", "float32", False), ("pointer", "float32", True), ("scalar", "float32", False),
                     ("scalar", "int64", False)]  # fmt: skip
    assert [row["name"] for row in built.signatures["unsupported"]] == ["templated"]
    assert functions["spaced"]["symbol"].startswith("_ZN5inner6spaced") and set(built.resources) == set(functions)
    assert built.resources["scale"]["registers"] > 0 and built.resources["scale"]["spill_bytes"] == 0
    assert build(tmp_path, DEVICE, more=MORE).cached
    assert not build(tmp_path, DEVICE, more=MORE.replace("= 1", "= 2")).cached


@pytest.mark.parametrize(
    ("symbol", "name"),
    [("k", "k"), ("_Z2k3Pf", "k3"), ("_Z3a1kPf", "a1k"), ("_ZN2ns3a1kEPi", "a1k"), ("_ZN12_GLOBAL__N_11kEPf", "k")],
)
def test_names_of_symbols(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


@needs_nvcc
def test_host_code_becomes_a_library(tmp_path: Path) -> None:
    built = build(tmp_path, HOST)
    assert built.library.name == "kernel.so" and built.library.with_name("kernel.cubin").is_file()
    functions = {f["name"]: f for f in built.signatures["functions"]}
    assert set(functions) == {"add", "run"} and functions["add"]["launch"] and "launch" not in functions["run"]
    assert [p["kind"] for p in functions["run"]["parameters"]] == ["pointer", "scalar", "stream"]
    assert built.signatures["unsupported"] == [{"name": "helper", "reason": "it is static"}]


@needs_a_compiler
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "__global__ void k(float* o) {\n    o[0] = zz;\n}\n",
            'kernels/k.cu:2:12: error: identifier "zz" is undefined',
        ),
        ('#include "../../secret.h"\n__global__ void k() {}\n', "secret.h"),
        ("__global__ int k() { return 1; }\n", "kernels/k.cu:1"),
    ],
)
def test_errors_have_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BuildError) as error:
        build(tmp_path, text)
    assert message in str(error.value) and "Traceback" not in str(error.value)


def test_messages_of_both_compilers() -> None:
    files = {"kernels/k.cu": b"int a;\n\t  o[0] = zz;\n"}
    log = 'kernels/k.cu(2): error: identifier "zz" is undefined\n    o[0] = zz;\n           ^\n'
    assert cut_nvcc(log, "kernels/k.cu", files).splitlines()[0] == (
        'kernels/k.cu:2:11: error: identifier "zz" is undefined'
    )
    log = "ptxas error   : Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)\n"
    assert cut_nvcc(log, "kernels/k.cu", files).startswith("kernels/k.cu: error: Entry function 'k' uses too much")
    log = "kernels/k.cu(1): error #20: one\n" * 3 + "".join(f"kernels/k.cu(1): error: {i}\n" for i in range(6))
    assert cut_nvcc(log, "kernels/k.cu", files).endswith("… and 2 more errors")
    assert cut_nvcc("nvcc warning : something\n", "kernels/k.cu", files) == ""
