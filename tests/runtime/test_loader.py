"""Finding sources, building them once, and what their writer is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from cuda_agent.runtime import CompilerMissing, KernelBuildError, KernelError, load_kernels
from cuda_agent.runtime.compiler import machine_id

from .conftest import Loader, python

DOUBLE = 'extern "C" void twice(const float* x, float* y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }'


def test_paths_are_relative_to_the_calling_file(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "twice.cpp").write_text(DOUBLE)
    module = 'from cuda_agent.runtime import load_kernels\nk = load_kernels("kernels/twice.cpp")\nprint(k)\n'
    (tmp_path / "model_new.py").write_text(module)
    finished = python("import model_new", cwd=Path("/"), env={"PYTHONPATH": str(tmp_path)})
    assert "twice(const float* x, float* y, int n)" in finished.stdout, finished.stderr


def test_a_header_is_part_of_the_source(load: Loader) -> None:
    source = '#include "value.h"\nextern "C" int value() { return VALUE; }'
    assert load(source, value="#define VALUE 1").value() == 1
    assert load(source, value="#define VALUE 2").value() == 2


def test_includes_are_found_from_the_solution_folder_too(load: Loader) -> None:
    source = '#include "kernels/value.h"\nextern "C" int value() { return VALUE; }'
    assert load(source, value="#define VALUE 3").value() == 3


def test_unknown_functions_list_the_known_ones(load: Loader) -> None:
    kernels = load(DOUBLE + '\nint plain() { return 1; }\nextern "C" void by_reference(float& x) { x = 1; }')
    with pytest.raises(AttributeError, match=r"kernels/x.cpp has no function 'trice'; it has: twice \("):
        _ = kernels.trice
    with pytest.raises(AttributeError, match='plain cannot be called from Python: it is not declared extern "C"'):
        _ = kernels.plain
    with pytest.raises(AttributeError, match=r"by_reference .*: parameter 1 \(float& x\) is a reference"):
        _ = kernels.by_reference
    assert dir(kernels) == ["twice"]
    assert not hasattr(kernels, "__wrapped__")


def test_equal_names_in_two_libraries_do_not_meet(load: Loader) -> None:
    source = 'extern "C" int inner() {{ return {0}; }}\nextern "C" int outer() {{ return inner(); }}'
    first, second = load(source.format(1), "a.cpp"), load(source.format(2), "b.cpp")
    assert (first.outer(), second.outer()) == (1, 2)


def test_build_errors_point_into_the_source(load: Loader, cache_root: Path) -> None:
    with pytest.raises(KernelBuildError) as caught:
        load('extern "C" void f(float* x) {\n    y[0] = 1;\n}\n')
    lines = str(caught.value).splitlines()
    assert lines[0] == "kernels/x.cpp:2:5: error: 'y' was not declared in this scope"
    assert lines[1:] == ["    2 |     y[0] = 1;", "      |     ^"]
    assert str(cache_root) not in caught.value.log


def test_undefined_functions_are_found_by_the_build(load: Loader) -> None:
    with pytest.raises(KernelBuildError, match=r"^kernels/x.cpp: error: undefined reference to 'helper\(int\)'"):
        load('void helper(int);\nextern "C" void f() { helper(1); }')


def test_a_header_outside_of_the_solution_is_not_seen(load: Loader, tmp_path: Path) -> None:
    (tmp_path / "outside.h").write_text("#define VALUE 1")
    with pytest.raises(KernelBuildError, match="No such file or directory"):
        load('#include "../../outside.h"\nextern "C" int f() { return VALUE; }')


def test_missing_and_foreign_sources(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"no kernel source .*nope.cpp \(the path 'nope.cpp' is relative to"):
        load_kernels("nope.cpp")
    with pytest.raises(KernelError, match=r"x.rs: kernels are sources in C\+\+"):
        load_kernels(tmp_path / "x.rs")


def test_a_missing_compiler_says_what_to_install(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_id.cache_clear()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CompilerMissing, match=r"g\+\+ is not on PATH. Install it .*apt-get install g\+\+"):
        load(DOUBLE)
    monkeypatch.undo()
    machine_id.cache_clear()


def test_prebuilt_needs_no_compiler_and_writes_nothing(load: Loader, tmp_path: Path, cache_root: Path) -> None:
    load(DOUBLE)
    empty = tmp_path / "other"
    env = {"CUDA_AGENT_PREBUILT": str(cache_root), "CUDA_AGENT_CACHE": str(empty), "PATH": "/nonexistent"}
    source = str(tmp_path / "solution/kernels/x.cpp")
    code = f"from cuda_agent.runtime import load_kernels; print(load_kernels({source!r}))"
    finished = python(code, cwd=tmp_path, env=env)
    assert "twice" in finished.stdout, finished.stderr
    assert not empty.exists()


def test_results_are_right(load: Loader) -> None:
    x, y = torch.randn(1000), torch.empty(1000)
    load(DOUBLE).twice(x, y, 1000)
    assert torch.equal(y, 2 * x)


def test_importing_the_runtime_is_light() -> None:
    code = "import sys, cuda_agent.runtime; print('torch' in sys.modules, 'pydantic' in sys.modules)"
    assert python(code, cwd=Path(os.sep)).stdout.split() == ["False", "False"]
