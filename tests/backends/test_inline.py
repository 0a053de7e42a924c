"""load_inline and load through the cache, with slim headers, beside torch's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from cuda_agent.backends import inline
from cuda_agent.backends.certain_errors import certain_errors
from cuda_agent.backends.extension import Extension, Unit, torch_include
from cuda_agent.backends.slim_headers import generated_headers, operator_names
from cuda_agent.runtime import BuildCache

SOURCE = (Path(__file__).parent / "usual_extension.cpp").read_text()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> BuildCache:
    return BuildCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", autouse=True)
def installed(cache: BuildCache) -> Iterator[None]:
    before = cpp_extension.load_inline, cpp_extension.load
    inline.install(cache)
    yield
    cpp_extension.load_inline, cpp_extension.load = before


@pytest.fixture(scope="module")
def usual(cache: BuildCache) -> ModuleType:
    return cpp_extension.load_inline("usual", SOURCE, extra_cflags=["-O1", "-fopenmp"])


def slim_only(cache: BuildCache) -> bool:
    return all("slim.log" not in entry.manifest["files"] for entry in cache.entries())


def test_usual_sources_need_the_slim_headers_only(usual: ModuleType, cache: BuildCache) -> None:
    assert slim_only(cache)
    assert usual.__doc__ == "usual"
    assert usual.softmax.__doc__ == "softmax (CPU)"


def test_tensors(usual: ModuleType) -> None:
    x = torch.randn(5, 7)
    assert torch.allclose(usual.softmax(x), x.softmax(1))
    assert torch.allclose(usual.softmax(x.double()), x.double().softmax(1))
    assert usual.twice(torch.nn.Parameter(x)).requires_grad
    w, b = torch.randn(6, 8), torch.randn(6)
    first, second = usual.gates(torch.randn(3, 4), weights=w, bias=b)
    assert first.shape == second.shape == (3, 2)
    image, kernel = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)
    expected = torch.nn.functional.conv2d(image, kernel, padding=1).relu()
    assert torch.allclose(usual.convolved(image, kernel, None), expected, atol=1e-5)
    usual.fill(x)
    assert (x == 3).all()


def test_defaults_and_keywords(usual: ModuleType) -> None:
    x = torch.randn(2, 3)
    assert torch.equal(usual.scaled(x), x)
    assert torch.allclose(usual.scaled(x, torch.ones(3), alpha=2), 2 * x + 1)
    assert usual.scaled(x=x, dim=7, keep=True).shape == (2, 1)


def test_other_types(usual: ModuleType) -> None:
    x = torch.randn(2, 3)
    a, b, n = usual.reshaped(x, [3, 2], (1, 0))
    assert (a.shape, b.shape, n) == ((3, 2), (3, 2), 6)
    assert torch.equal(b, x.t())
    assert usual.count([x, x]) == 12
    assert usual.count(()) == 0
    assert usual.small(-128) == -128
    assert usual.inverted(False) is True
    assert usual.greeting("you") == "hello you"
    assert usual.sizes(x) == (2.0, [2, 3])
    assert usual.filled(2, 1.5).tolist() == [1.5, 1.5]
    assert usual.filled(torch.tensor(2), True).tolist() == [1, 1]
    assert usual.maybe(x, False) is None
    assert usual.maybe(x, True) is x


def test_overloads_are_tried_in_order(usual: ModuleType) -> None:
    one = torch.ones(1)
    assert usual.either(one, 3).item() == 4
    assert usual.either(one, 3.0).item() == 3


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (0, RuntimeError, "plain"),
        (1, IndexError, "range"),
        (2, ValueError, "argument"),
        (3, IndexError, "index"),
        (4, RuntimeError, "kind 4"),
    ],
)
def test_exceptions(usual: ModuleType, kind: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        usual.fails(kind)


@pytest.mark.parametrize(
    "arguments",
    [(), (None,), (1.5,), ("x",), (torch.ones(1), 1), ([torch.ones(1)],)],
    ids=str,
)
def test_wrong_arguments_are_type_errors(usual: ModuleType, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"softmax\(\): incompatible function arguments. Expected: \(Tensor\); given"):
        usual.softmax(*arguments)


def test_wrong_scalars_are_type_errors(usual: ModuleType) -> None:
    for wrong in (128, -129, 1.0, "1", None):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            usual.small(wrong)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        usual.softmax(unknown=torch.ones(1))


def test_references_are_counted(usual: ModuleType) -> None:
    x = torch.randn(4, 4)
    before = sys.getrefcount(x)
    for _ in range(100):
        usual.softmax(x)
        usual.count([x])
        usual.maybe(x, True)
        with pytest.raises(TypeError):
            usual.softmax(x, x)
    assert sys.getrefcount(x) == before


def test_functions_are_bound_and_the_cache_serves_again(cache: BuildCache) -> None:
    source = "torch::Tensor inc(torch::Tensor x) { return x + 1; }\ndouble pi() { return 3.0; }"
    module = cpp_extension.load_inline("inc", [source], functions={"inc": 'adds "1"', "pi": "pi"})
    assert module.inc(torch.zeros(1)).item() == 1
    assert module.inc.__doc__ == 'adds "1"'
    entries = len(cache.entries())
    again = cpp_extension.load_inline(name="inc", cpp_sources=[source], functions={"inc": 'adds "1"', "pi": "pi"})
    assert again.pi() == 3.0
    assert len(cache.entries()) == entries
    assert slim_only(cache)


def test_certain_errors_do_not_ask_torchs_headers(cache: BuildCache) -> None:
    source = "torch::Tensor f(torch::Tensor x) {\n  return x.no_such_method();\n}"
    with pytest.raises(RuntimeError) as caught:
        cpp_extension.load_inline("bad", source, functions="f")
    lines = str(caught.value).splitlines()
    assert lines[0] == "Error building extension 'bad':"
    assert lines[1] == "cpp_sources:2:12: error: 'class at::Tensor' has no member named 'no_such_method'"
    assert lines[2] == "    2 |   return x.no_such_method();"
    assert slim_only(cache)


def test_which_errors_are_certain() -> None:
    def certain(error: str) -> bool:
        return certain_errors(f"x.cpp:1:1: error: {error}", "x", {}, [torch_include() / "c10/util"]) is not None

    assert certain("'class at::Tensor' has no member named 'foo'")
    assert certain("'zuppa_inglese' was not declared in this scope")
    assert not certain("'Exception' was not declared in this scope")
    assert not certain("'kSomething' was not declared in this scope")
    assert not certain("'TORCH_SOMETHING' does not name a type")
    assert not certain("expected ';' before '}' token")


def test_cuda_sources_say_what_is_missing() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match=r"'k' has CUDA sources, but .*: use cpp_sources only"):
        cpp_extension.load_inline("k", "", cuda_sources="__global__ void f() {}", functions=["f"])
    with pytest.raises(RuntimeError, match="has CUDA sources"):
        cpp_extension.load("k", ["a.cpp", "b.cu"])


def test_wrong_functions_argument() -> None:
    with pytest.raises(ValueError, match="Expected 'functions' to be a list or dict"):
        cpp_extension.load_inline("k", "", functions=3)


def test_units_and_headers_from_files(tmp_path: Path, cache: BuildCache) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/shared.h").write_text("#pragma once\nint value();\n#define MORE 1\n")
    (tmp_path / "a.cpp").write_text('#include "own.h"\nint value() { return OWN; }\n')
    (tmp_path / "own.h").write_text("#define OWN 40\n")
    (tmp_path / "b.cpp").write_text(
        "#include <torch/extension.h>\n#include <shared.h>\nint get() { return value() + MORE; }\n"
        'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("get", &get); }\n'
    )
    arguments: dict[str, Any] = {
        "sources": [str(tmp_path / "a.cpp"), str(tmp_path / "b.cpp")],
        "extra_include_paths": [str(tmp_path / "include")],
    }
    assert cpp_extension.load("units", **arguments).get() == 41
    (tmp_path / "own.h").write_text("#define OWN 50\n")
    assert Extension("x", (Unit("a.cpp", '#include "own.h"', tmp_path),)).local_headers == {
        str(tmp_path / "own.h"): "#define OWN 50\n"
    }
    assert slim_only(cache)


def test_one_name_built_four_times_at_once(tmp_path: Path) -> None:
    code = """
import sys
from cuda_agent.backends import inline
inline.install()
from torch.utils.cpp_extension import load_inline
value = int(sys.argv[1])
module = load_inline("same", f"int get() {{ return {value}; }}", functions=["get"], no_implicit_headers=False)
print(module.get())
"""
    environment = {"CUDA_AGENT_CACHE": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    argv = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen([*argv, str(index % 2)], env=environment, stdout=subprocess.PIPE, text=True)
        for index in range(4)
    ]
    assert [process.communicate(timeout=280)[0].strip() for process in processes] == ["0", "1", "0", "1"]
    assert len(BuildCache(tmp_path).entries()) == 2


def test_named_operators() -> None:
    assert {"relu", "relu_", "mm_out", "mm"} <= operator_names("at::relu_(x); torch::mm_out(y, a, b);")
    assert "matmul" not in operator_names("matmul(a, b)")
    assert "matmul" in operator_names("using namespace torch;\nmatmul(a, b)")
    generated = generated_headers("at::parallel_for(0, 1, 1, f); torch::nothing(); torch::add(a, b);", torch_include())
    assert generated is not None
    assert "#include <ATen/Parallel.h>" in generated["cuda_agent/generated.h"]
    assert "#include <ATen/ops/add.h>" in generated["cuda_agent/generated.h"]
    assert "nothing" not in generated["cuda_agent/generated.h"]
    assert generated_headers("", Path("/nonexistent")) is None


@pytest.mark.slow
def test_what_the_slim_headers_lack_is_built_with_torchs(cache: BuildCache) -> None:
    source = "torch::Tensor f(torch::Tensor x) { return torch::nn::functional::softmax(x, 1); }"
    module = cpp_extension.load_inline("lacking", source, functions=["f"])
    x = torch.randn(2, 3)
    assert torch.allclose(module.f(x), x.softmax(1))
    extension = next(entry for entry in cache.entries() if "slim.log" in entry.manifest["files"])
    assert "error:" in (extension.folder / "slim.log").read_text()


@pytest.mark.slow
def test_the_usual_source_means_the_same_with_torchs_headers(
    usual: ModuleType, cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "build_slim", lambda *_: None)
    full = cpp_extension.load_inline("usual", SOURCE, extra_cflags=["-O1", "-fopenmp"])
    assert full.__file__ != usual.__file__
    test_tensors(full)
    test_defaults_and_keywords(full)
    test_other_types(full)
    test_overloads_are_tried_in_order(full)
    for wrong in (128, -129, 1.0, "1", None):
        with pytest.raises(TypeError):
            full.small(wrong)
    for kind, error in ((0, RuntimeError), (1, IndexError), (2, ValueError), (3, IndexError), (4, RuntimeError)):
        with pytest.raises(error):
            full.fails(kind)
