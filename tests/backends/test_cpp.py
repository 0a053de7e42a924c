"""The backends' contract, through the installed entry points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuda_agent.backends import BuildCache, backend_for, backend_names, get_backend
from cuda_agent.errors import BuildError, MachineError, SolutionError, UsageError
from cuda_agent.runtime.compiler import machine_id
from cuda_agent.sandbox import run_plain

SOURCE = '#include "c.h"\nextern "C" int f(int n) { return n + ONE; }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "solution/kernels").mkdir(parents=True)
    (tmp_path / "solution/kernels/c.h").write_text("#define ONE 1\n")
    (tmp_path / "solution/kernels/x.cpp").write_text(SOURCE)
    return tmp_path / "solution"


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "cache")


def test_backends_are_found_by_name_and_by_suffix() -> None:
    assert "cpp" in backend_names()
    assert get_backend("cpp") is get_backend("cpp")
    assert backend_for("kernels/x.cc").name == "cpp"
    with pytest.raises(UsageError, match=r"no backend 'cp'; there are: .*cpp"):
        get_backend("cp")
    with pytest.raises(SolutionError, match=r"no backend builds kernels/x.rs; sources end in: .*\.cpp"):
        backend_for("kernels/x.rs")


@pytest.mark.parametrize("name", backend_names())
def test_every_entry_point_loads(name: str) -> None:
    backend = get_backend(name)
    assert backend.name == name
    assert all(suffix.startswith(".") for suffix in backend.suffixes)


def test_build_and_find_again(folder: Path, cache: BuildCache) -> None:
    first = get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    again = get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    assert (first.cached, again.cached) == (False, True)
    assert first.library == again.library
    stored = json.loads((folder / "kernels/x.cpp.sig.json").read_text())
    assert stored == first.signatures == again.signatures
    assert stored["schema"] == 1
    assert stored["functions"] == [
        {
            "name": "f",
            "returns": "int32",
            "parameters": [{"name": "n", "type": "int", "kind": "scalar", "dtype": "int32", "const": False}],
        }
    ]


def test_warnings_stay_in_the_log(folder: Path, cache: BuildCache) -> None:
    (folder / "kernels/x.cpp").write_text('extern "C" int f() { int unused; return 1; }')
    built = get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    assert "warning: unused variable 'unused'" in built.log


def test_errors_in_sources_headers_templates_and_libraries(folder: Path, cache: BuildCache) -> None:
    (folder / "kernels/c.h").write_text("template <class T> int size(T x) {\n  return x.size();\n}\n")
    (folder / "kernels/x.cpp").write_text(
        '#include <algorithm>\n#include <vector>\n#include "c.h"\nstruct S {};\nextern "C" void f(int n) {\n'
        "  size(n);\n  std::vector<S> v;\n  std::sort(v.begin(), v.end());\n  m = 1;\n}\n"
    )
    with pytest.raises(BuildError) as caught:
        get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    message = str(caught.value)
    lines = message.splitlines()
    assert "kernels/x.cpp:9:3: error: 'm' was not declared in this scope" in lines
    assert "    9 |   m = 1;" in lines
    assert "      |   ^" in lines
    assert any(
        line.startswith("kernels/c.h:2:12: error: request for member 'size'")
        and line.endswith("(instantiated at kernels/x.cpp:6:7)")
        for line in lines
    )
    assert any(
        line.startswith("kernels/x.cpp:8:12: error: no match for 'operator<'") and "(in <bits/" in line
        for line in lines
    )
    assert "    8 |   std::sort(v.begin(), v.end());" in lines
    assert "note:" not in message
    assert "In file included" not in message
    assert str(cache.root) not in message
    assert len(lines) < 25


def test_many_errors_are_counted(folder: Path, cache: BuildCache) -> None:
    body = "\n".join(f"  a{index} = 1;" for index in range(9))
    (folder / "kernels/x.cpp").write_text(f'extern "C" void f() {{\n{body}\n}}\n')
    with pytest.raises(BuildError) as caught:
        get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    assert str(caught.value).count("error:") == 5
    assert str(caught.value).endswith("… and 4 more errors")


@pytest.mark.parametrize(
    ("source", "first"),
    [
        ('#include "nope.h"\n', "kernels/x.cpp:1:10: fatal error: nope.h: No such file or directory"),
        ("#error give up\n", "kernels/x.cpp:1:2: error: #error give up"),
        ('extern "C" int f() { asm("nonsense %eax"); return 1; }', "kernels/x.cpp:1: error: no such instruction:"),
        ("#define P(x) x +* 2\nint f() { return P(3); }\n", "kernels/x.cpp:1:17: error: invalid type argument"),
        ("int f(); int g() { return f(); }", "kernels/x.cpp: error: undefined reference to 'f()'"),
        ("int f() {", "kernels/x.cpp:1:10: error: expected '}' at end of input"),
    ],
)
def test_first_lines(folder: Path, cache: BuildCache, source: str, first: str) -> None:
    (folder / "kernels/x.cpp").write_text(source)
    with pytest.raises(BuildError) as caught:
        get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    assert str(caught.value).startswith(first)


def test_words_of_included_secrets_are_not_repeated(folder: Path, cache: BuildCache, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2 = open sesame\n")
    (folder / "kernels/x.cpp").write_text(f'#include "{tmp_path}/secret"\n')
    with pytest.raises(BuildError) as caught:
        get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    assert str(caught.value).startswith("kernels/x.cpp:1: error: what is included is no C++ source (in <")
    assert "hunter2" not in str(caught.value)


def test_missing_source_and_missing_compiler(folder: Path, cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SolutionError, match=r"no kernel source kernels/y\.cpp"):
        get_backend("cpp").build(folder, "kernels/y.cpp", cache=cache, runner=run_plain)
    machine_id.cache_clear()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MachineError, match=r"apt-get install g\+\+"):
        get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
    monkeypatch.undo()
    machine_id.cache_clear()


def test_a_build_that_takes_too_long_is_stopped(
    folder: Path, cache: BuildCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuda_agent.runtime.compiler.TIMEOUT_S", 0.3)
    (folder / "kernels/x.cpp").write_text(
        "template <int A, int B> struct F { static constexpr long v = F<A - 1, B>::v + F<A - 1, B + 1>::v; };\n"
        "template <int B> struct F<0, B> { static constexpr long v = B; };\n"
        'extern "C" long f() { return F<800, 0>::v; }\n'
    )
    with pytest.raises(BuildError, match=r"kernels/x.cpp: the compiler took more than 0 s"):
        get_backend("cpp").build(folder, "kernels/x.cpp", cache=cache, runner=run_plain)
