"""What reaches a C function, and how a wrong argument is named."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch

from cuda_agent.runtime import Function, Kernels, Parameter
from cuda_agent.runtime.signatures import INTEGER_BITS

POINTERS = {
    "float": torch.float32,
    "double": torch.float64,
    "int8_t": torch.int8,
    "int16_t": torch.int16,
    "int32_t": torch.int32,
    "int64_t": torch.int64,
    "uint8_t": torch.uint8,
    "bool": torch.bool,
    "_Float16": torch.float16,
    "bf16": torch.bfloat16,
    "std::complex<float>": torch.complex64,
}
SCALARS = ["int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t"]

SOURCE = "#include <complex>\n#include <cstdint>\n#include <unistd.h>\ntypedef uint16_t bf16;\n" + "\n".join(
    [
        f'extern "C" void copy_{torch_name}(const {c_name}* x, {c_name}* y, int64_t n)'
        "{ for (int64_t i = 0; i < n; i++) y[i] = x[i]; }"
        for c_name, torch_name in ((c, str(t).removeprefix("torch.")) for c, t in POINTERS.items())
    ]
    + [f'extern "C" {name} same_{name}({name} value) {{ return value; }}' for name in SCALARS]
    + [
        'extern "C" float half_of(float x) { return x / 2; }',
        'extern "C" double third_of(double x) { return x / 3; }',
        'extern "C" bool negated(bool x) { return !x; }',
        'extern "C" int64_t is_null(const float* x) { return x == nullptr; }',
        'extern "C" int first_raw(const uint16_t* x) { return x[0]; }',
        'extern "C" int first_byte(const void* x) { return *static_cast<const unsigned char*>(x); }',
        'extern "C" void nothing() {}',
        'extern "C" void pause_ms(int ms) { usleep(ms * 1000); }',
    ]
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    from cuda_agent.runtime import load_kernels

    folder = tmp_path_factory.mktemp("calls")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_AGENT_CACHE", str(folder / "cache"))
        (folder / "calls.cpp").write_text(SOURCE)
        return load_kernels(folder / "calls.cpp")


@pytest.mark.parametrize("dtype", POINTERS.values(), ids=str)
def test_pointers_take_tensors_of_their_element_type(kernels: Kernels, dtype: torch.dtype) -> None:
    x = (torch.arange(7) % 3).to(dtype)
    y = torch.zeros(7, dtype=dtype)
    getattr(kernels, f"copy_{str(dtype).removeprefix('torch.')}")(x, y, 7)
    assert torch.equal(x, y)


@pytest.mark.parametrize("name", SCALARS)
def test_integers_pass_whole_and_are_checked_for_range(kernels: Kernels, name: str) -> None:
    dtype = name.removesuffix("_t")
    bits = INTEGER_BITS[dtype]
    low, high = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    same = getattr(kernels, f"same_{name}")
    assert [same(low), same(high), same(1), same(True)] == [low, high, 1, 1]
    for outside in (low - 1, high + 1):
        with pytest.raises(OverflowError, match=rf"argument 1 \({name} value\): {outside} is outside of {dtype}"):
            same(outside)


def test_floats_and_bools(kernels: Kernels) -> None:
    assert kernels.half_of(3.0) == 1.5
    assert kernels.half_of(3) == 1.5
    assert kernels.third_of(1.0) == 1 / 3
    assert kernels.negated(True) is False
    assert kernels.negated(0) is True
    assert kernels.nothing() is None


def test_none_is_a_null_pointer(kernels: Kernels) -> None:
    assert kernels.is_null(None) == 1
    assert kernels.is_null(torch.zeros(1)) == 0


def test_gradients_do_not_hinder_a_call(kernels: Kernels) -> None:
    x = torch.ones(3, requires_grad=True)
    y = torch.nn.Parameter(torch.zeros(3))
    kernels.copy_float32(x, y, 3)
    assert y.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint16])
def test_raw_sixteen_bits(kernels: Kernels, dtype: torch.dtype) -> None:
    x = torch.ones(1).to(dtype)
    assert kernels.first_raw(x) == x.view(torch.int16).item()


def test_void_pointers_take_any_dtype(kernels: Kernels) -> None:
    assert kernels.first_byte(torch.tensor([7], dtype=torch.int64)) == 7
    assert kernels.first_byte(torch.tensor([9], dtype=torch.uint8)) == 9


X, Y = torch.zeros(4), torch.zeros(4)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((X, Y), TypeError, r"copy_float32\(const float\* x, float\* y, int64_t n\) takes 3 arguments, 2 given"),
        ((X, Y, 4, 4), TypeError, "takes 3 arguments, 4 given"),
        ((X, Y.double(), 4), TypeError, r"argument 2 \(float\* y\): a tensor of float32 is expected, .* of float64"),
        ((X, [1.0], 4), TypeError, r"argument 2 .* tensor of float32 is expected, given list \[1.0\]"),
        ((X.expand(2, 4).t(), Y, 4), ValueError, r"argument 1 .* contiguous .* strides \(1, 0\) for shape \(4, 2\)"),
        ((X, Y[::2], 2), ValueError, r"strides \(2,\) for shape \(2,\); pass x.contiguous\(\)"),
        ((X.to("meta"), Y, 4), ValueError, "a CPU tensor is expected, given one on meta"),
        ((X.to_sparse(), Y, 4), ValueError, "a dense tensor is expected, given one with layout torch.sparse_coo"),
        ((X, Y, 4.0), TypeError, r"argument 3 \(int64_t n\): an integer is expected, given float 4.0"),
        ((X, Y, "4"), TypeError, "an integer is expected, given str '4'"),
        ((X, Y, torch.tensor(4)), TypeError, r"a Python number is expected, .* pass x.item\(\)"),
        ((X, Y, 2**63), OverflowError, "argument 3"),
    ],
)
def test_a_mismatch_names_the_argument(
    kernels: Kernels, arguments: tuple[object, ...], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        kernels.copy_float32(*arguments)


@pytest.mark.parametrize("value", [None, "1", [1]])
def test_wrong_scalars(kernels: Kernels, value: object) -> None:
    with pytest.raises(TypeError, match=r"argument 1 \(float x\)"):
        kernels.half_of(value)
    with pytest.raises(TypeError, match=r"argument 1 \(bool x\): True or False"):
        kernels.negated(value)


def test_calls_release_the_gil(kernels: Kernels) -> None:
    started = time.monotonic()
    threads = [threading.Thread(target=kernels.pause_ms, args=(300,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - started < 1.0


def test_a_function_prints_as_its_prototype() -> None:
    parameter = Parameter("x", "const float*", "pointer", "float32", True)
    assert str(Function("f", "void", (parameter,))) == "f(const float* x)"


def test_one_openmp_runtime_and_its_thread_count(load: object, tmp_path: Path) -> None:
    source = '#include <omp.h>\nextern "C" int threads() { return omp_get_max_threads(); }'
    kernels = load(source)  # type: ignore[operator]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert kernels.threads() == 1
        torch.set_num_threads(2)
        assert kernels.threads() == 2
    finally:
        torch.set_num_threads(before)
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libgomp" in line}
    assert len(mapped) == 1
