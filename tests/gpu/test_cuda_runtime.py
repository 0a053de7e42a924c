"""CUDA kernels through `cuda_agent.runtime`: what a launch takes, where it runs, and what fails at once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import cuda_agent.backends  # noqa: F401  (the parser of signatures)
from cuda_agent.runtime import KernelError, Kernels, load_kernels

DEVICE = """
#include <cstdint>
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(256)
scale(float* __restrict__ out, const float* __restrict__ x, float s, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = s * x[i];
}
__global__ void halves(__half* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2half(x[i]);
}
extern "C" __global__ void shared(float* out, int n) {
    extern __shared__ float memory[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) memory[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) out[0] = memory[n - 1];
}
extern "C" __global__ void
all(double* out, bool a, int8_t b, uint8_t c, int16_t d, uint32_t e, int64_t f, float g, double h) {
    out[0] = double(a) + b + c + d + e + double(f) + double(g) + h;
}
extern "C" __global__ void place(int* out) {
    out[0] = gridDim.x * 100 + gridDim.y * 10 + gridDim.z + blockDim.y * 1000;
}
extern "C" __global__ void where(int* out, const int* in) { out[0] = in == nullptr; }
extern "C" __global__ void slow(int* out, int64_t cycles) {
    for (int64_t start = clock64(); clock64() - start < cycles;) {}
    out[0] = 1;
}
template <int N> __global__ void templated(int* out) { out[0] = N; }
"""
HOST = """
#include <cuda_runtime.h>
__global__ void add(float* out, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + 1;
}
extern "C" void run_add(float* out, const float* x, int n, cudaStream_t stream) {
    add<<<(n + 255) / 256, 256, 0, stream>>>(out, x, n);
}
extern "C" int too_many_threads(float* out, const float* x, int n, cudaStream_t stream) {
    add<<<1, 4096, 0, stream>>>(out, x, n);
    return 7;
}
"""


def loaded(folder: Path, text: str) -> Kernels:
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / "kernels" / "k.cu").write_text(text)
    return load_kernels(folder / "kernels" / "k.cu")


@pytest.fixture
def k(tmp_path: Path) -> Kernels:
    return loaded(tmp_path, DEVICE)


def test_a_launch(k: Kernels) -> None:
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    k.scale[4, 256](out, x, 2.5, x.numel())
    assert torch.equal(out, x * 2.5)
    half = torch.empty(1000, device="cuda", dtype=torch.float16)
    k.halves[(4,), (256, 1, 1)](half, x, 1000)
    assert torch.equal(half, x.half())


def test_every_kind_of_number_in_its_place(k: Kernels) -> None:
    out = torch.empty(1, device="cuda", dtype=torch.float64)
    k.all[1, 1](out, True, -2, 200, -300, 4_000_000_000, 1 << 40, 0.5, 0.25)
    assert out.item() == 1 - 2 + 200 - 300 + 4_000_000_000 + (1 << 40) + 0.75
    place = torch.empty(1, device="cuda", dtype=torch.int32)
    k.place[(2, 3, 4), (8, 4)](place)
    assert place.item() == 4234
    k.where[1, 1](place, None)
    assert place.item() == 1


def test_shared_memory_above_48_kib(k: Kernels) -> None:
    out = torch.empty(1, device="cuda")
    for count in (1000, 20_000, 50_000):
        k.shared[1, 128, 4 * count](out, count)
        assert out.item() == count - 1
    with pytest.raises(KernelError, match="shared"):
        k.shared[1, 128, 1 << 20](out, 10)


@pytest.mark.parametrize("configuration", [(1, 2048), (1, (8, 8, 128)), ((1, 1 << 20), 32)])
def test_a_launch_that_the_driver_refuses_is_an_error_at_once(k: Kernels, configuration: Any) -> None:
    x = torch.ones(8, device="cuda")
    out = torch.full_like(x, 7.0)
    with pytest.raises(KernelError, match=r"k\.cu: launching scale\[.*\] failed: .*invalid"):
        k.scale[configuration](out, x, 2.0, 8)
    k.scale[1, 8](out, x, 2.0, 8)
    assert out.tolist() == [2.0] * 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x: (x, x.cpu(), 1.0, 8), "CUDA tensor is expected, given one on cpu"),
        (lambda x: (x, x.double(), 1.0, 8), "float32 is expected"),
        (lambda x: (x, x[::2], 1.0, 8), "contiguous"),
        (lambda x: (x, x, torch.ones(1), 8), "Python number"),
        (lambda x: (x, x, 1.0), "takes 4 arguments, 3 given"),
        (lambda x: (x, x, 1.0, 1 << 63), "outside of int64"),
    ],
)
def test_arguments_that_do_not_fit_are_named(k: Kernels, arguments: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError), match=words):
        k.scale[1, 8](*arguments(torch.ones(8, device="cuda")))


def test_what_cannot_be_launched(k: Kernels) -> None:
    with pytest.raises(TypeError, match=r"launch it as scale\[grid, block\]"):
        k.scale(1, 2)
    with pytest.raises(TypeError, match="given 5"):
        k.scale[5]
    with pytest.raises(ValueError, match="at least 1"):
        k.scale[0, 32]
    with pytest.raises(AttributeError, match="template"):
        k.templated[1, 1]


def test_launches_go_to_the_current_stream(k: Kernels) -> None:
    out = torch.zeros(1, device="cuda", dtype=torch.int32)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        k.slow[1, 1](out, 200_000_000)
    assert not stream.query()
    stream.synchronize()
    assert out.item() == 1


def test_in_a_graph_and_in_a_thread(k: Kernels) -> None:
    x, out = torch.randn(256, device="cuda"), torch.empty(256, device="cuda")
    k.scale[1, 256](out, x, 1.0, 256)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k.scale[1, 256](out, x, 3.0, 256)
    x.normal_()
    graph.replay()
    assert torch.equal(out, x * 3)
    thread = threading.Thread(target=lambda: k.scale[1, 256](out, x, 4.0, 256))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, x * 4)


def test_host_functions_get_the_stream_and_tell_failed_launches(tmp_path: Path) -> None:
    k = loaded(tmp_path, HOST)
    x = torch.randn(1000, device="cuda")
    out = torch.empty_like(x)
    k.run_add(out, x, 1000)
    assert torch.equal(out, x + 1)
    with pytest.raises(KernelError, match=r"too_many_threads\(\) left a CUDA error: invalid"):
        k.too_many_threads(out, x, 1000)
    k.add[4, 256](out, out, 1000)
    assert torch.equal(out, x + 1 + 1)


def test_an_illegal_access_is_told_and_ends_with_its_process(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void wild(float* x, long i) { x[i] = 1; }'
    (tmp_path / "k.cu").write_text(text)
    program = f"""
        import torch, cuda_agent.backends
        from cuda_agent.runtime import load_kernels
        k = load_kernels({str(tmp_path / "k.cu")!r})
        k.wild[1, 1](torch.ones(1, device="cuda"), 1 << 42)
        torch.cuda.synchronize()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert done.returncode != 0 and "illegal memory access" in done.stderr
    assert torch.ones(1, device="cuda").item() == 1
