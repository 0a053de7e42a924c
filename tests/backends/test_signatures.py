"""How `extern "C"` functions are found, in the spellings that people and models use."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from cuda_agent.backends.c_types import dtype_of
from cuda_agent.backends.signatures import parse_signatures
from cuda_agent.backends.symbols import defined_functions
from cuda_agent.runtime import BuildCache, KernelError, Signatures, build, read_beside, read_tree, run_program


def signatures(tmp_path: Path, source: str, **headers: str) -> Signatures:
    (tmp_path / "x.cpp").write_text(textwrap.dedent(source))
    for name, text in headers.items():
        (tmp_path / f"{name}.h").write_text(text)
    tree = read_tree(tmp_path / "x.cpp", tmp_path)
    built = build(tree, cache=BuildCache(tmp_path / "cache"), parser=parse_signatures)
    assert built.signatures is not None
    return built.signatures


def only(found: Signatures) -> str:
    (function,) = found.functions
    return f"{function} -> {function.returns}"


DECLARATIONS = {
    'extern "C" void f() {}': "f() -> void",
    'extern "C" int f(void) { return 0; }': "f() -> int32",
    'extern "C" void f(const float* __restrict__ x, float *__restrict y, long n) {}': (
        "f(const float* x, float* y, long n) -> void"
    ),
    '#include <cstdint>\nextern "C" { std::int64_t f(int const * const x, uint8_t y[], unsigned n); }\n'
    'extern "C" std::int64_t f(int const * const x, uint8_t y[], unsigned n) { return 0; }': (
        "f(const int* x, uint8_t* y, unsigned n) -> int64"
    ),
    'extern "C" __attribute__((visibility("default"))) float f([[maybe_unused]] float x) noexcept { return 1; }': (
        "f(float x) -> float32"
    ),
    'extern "C" auto f(bool b) -> double { return b; }': "f(bool b) -> float64",
    'extern "C" int\nf\n(int a, // first\n /* second */ short\n b)\n{ return 0; }': "f(int a, short b) -> int32",
    'extern "C" void f(float (*x), float y[4]) {}': "f(float* x, float* y) -> void",
    'extern "C" void f(int n = 3) {}': "f(int n) -> void",
    'extern "C" void f(float*, int) {}': "f(float*, int) -> void",
    'extern "C" void f(float* x, int n);\nvoid f(float* x, int n) {}': "f(float* x, int n) -> void",
    'using real = float; typedef real scalar;\nextern "C" scalar f(const real* x) { return *x; }': (
        "f(const real* x) -> float32"
    ),
    'namespace inner { extern "C" void f(float* x) {} }': "f(float* x) -> void",
    'extern "C" {\nstatic int g() { return 1; }\nint h;\nint f() { return g(); }\n}': "f() -> int32",
    '#ifdef __cplusplus\nextern "C" {\n#endif\nvoid f(float* x) {}\n#ifdef __cplusplus\n}\n#endif': (
        "f(float* x) -> void"
    ),
    '#define EXPORT extern "C" __attribute__((visibility("default")))\nEXPORT void f(float* x, int n) { }': (
        "f(float* x, int n) -> void"
    ),
    '#define KERNEL(T, name) extern "C" void name(const T* x, T* y, int n) {}\nKERNEL(double, f)': (
        "f(const double* x, double* y, int n) -> void"
    ),
    '#define real double\nextern "C" real f(real* x) { return *x; }': "f(real* x) -> float64",
    '#if 0\nextern "C" void f(int a) {}\n#else\nextern "C" void f(float* x) {}\n#endif': "f(float* x) -> void",
    'template <class T> T twice(T x) { return 2 * x; }\nextern "C" float f(float x) { return twice(x); }': (
        "f(float x) -> float32"
    ),
    '#include <vector>\n#include <omp.h>\n#pragma GCC optimize("fast-math")\nextern "C" void f(float* x) {'
    "\n#pragma omp parallel for\nfor (int i = 0; i < 2; i++) x[i] = [](float v) { return v < 1 ? v : 1; }(x[i]);}": (
        "f(float* x) -> void"
    ),
}


@pytest.mark.parametrize("source", DECLARATIONS, ids=range(len(DECLARATIONS)))
def test_declarations(tmp_path: Path, source: str) -> None:
    assert only(signatures(tmp_path, source)) == DECLARATIONS[source]


def test_functions_and_types_from_a_header(tmp_path: Path) -> None:
    found = signatures(
        tmp_path,
        '#include "types.h"\nextern "C" void f(const real* x, bf16* y) {}',
        types="#pragma once\n#include <cstdint>\nusing real = double;\nstruct bf16 { uint16_t bits; };\n"
        'extern "C" int from_header(int n) { return n; }',
    )
    assert [str(function) for function in found.functions] == [
        "f(const real* x, bf16* y)",
        "from_header(int n)",
    ]
    assert [p.dtype for p in found.functions[0].parameters] == ["float64", "bfloat16"]


REFUSED = {
    "float& x": "is a reference; take a pointer or a number",
    "float** x": "is a pointer to a pointer",
    "float (*x)[4]": "is a pointer to a pointer or to an array",
    "void (*x)(int)": "is a function pointer",
    "struct S x": "has the type struct S, which Python cannot pass; take an integer",
    "S* x": "has the type S, which Python cannot pass; take a pointer to numbers",
    "long double x": "has the type long double",
    "E x": "has the type E",
    "_Float16 x": "has the type _Float16, which Python cannot pass; take an integer, float",
}


@pytest.mark.parametrize("parameter", REFUSED)
def test_unsupported_parameters_are_listed_with_the_reason(tmp_path: Path, parameter: str) -> None:
    source = (
        f'struct S {{ int i; }}; enum E {{ A }};\nextern "C" void f(int n, {parameter}) {{}}\nextern "C" void ok() {{}}'
    )
    found = signatures(tmp_path, source)
    assert [function.name for function in found.functions] == ["ok"]
    assert found.unsupported["f"].startswith("parameter 2 (")
    assert REFUSED[parameter] in found.unsupported["f"]


def test_other_reasons(tmp_path: Path) -> None:
    source = """
        int helper();
        int plain() { return 1; }
        static int hidden() { return plain(); }
        template <class T> T generic(T x) { return x; }
        struct S { int method() { return 1; } };
        extern "C" const char* text() { return "a"; }
        extern "C" S by_value() { return {}; }
        extern "C" int many(int n, ...) { return hidden(); }
        extern "C" int declared_only(int n);
    """
    found = signatures(tmp_path, source)
    assert found.functions == ()
    assert found.unsupported == {
        "helper": "it is declared but not defined in this source",
        "plain": 'it is not declared extern "C"',
        "hidden": "it is static",
        "text": "it returns a pointer or a reference; functions return numbers or nothing",
        "by_value": "it returns S; functions return numbers or nothing",
        "many": "it takes a variable number of arguments",
        "declared_only": "it is declared but not defined in this source",
    }


def test_stored_signatures_belong_to_one_version_of_the_source(tmp_path: Path) -> None:
    found = signatures(tmp_path, 'extern "C" int f(const float* x) { return 1; }')
    assert Signatures.from_json(found.to_json()) == found
    source = tmp_path / "x.cpp"
    (tmp_path / "x.cpp.sig.json").write_text(found.to_json())
    digest = read_tree(source, tmp_path).digest
    assert read_beside(source, digest) == found
    assert read_beside(source, "0" * 64) is None
    for damaged in ("", "[]", "{}", '{"schema": 9}', found.to_json()[:-30], found.to_json().replace("float32", "f")):
        (tmp_path / "x.cpp.sig.json").write_text(damaged)
        assert read_beside(source, digest) is None
        with pytest.raises(KernelError):
            Signatures.from_json(damaged)


def test_deep_nesting(tmp_path: Path) -> None:
    depth = 2000
    source = 'extern "C" { ' * depth + "int f() { return " + "(" * 200 + "1" + ")" * 200 + "; }" + "}" * depth
    assert only(signatures(tmp_path, source)) == "f() -> int32"


def test_symbols_of_a_damaged_library(tmp_path: Path) -> None:
    (tmp_path / "x.cpp").write_text('extern "C" int f() { return 1; }\nint g() { return 2; }')
    built = build(read_tree(tmp_path / "x.cpp", tmp_path), cache=BuildCache(tmp_path / "cache"))
    assert {"f", "_Z1gv"} <= defined_functions(built.library)
    data = built.library.read_bytes()
    for changed in (b"", b"#!/bin/sh", data[:100], data[: len(data) // 2]):
        (tmp_path / "bad.so").write_bytes(changed)
        with pytest.raises(ValueError, match=r"no 64-bit|damaged"):
            defined_functions(tmp_path / "bad.so")
    with pytest.raises(KernelError, match=r"x.cpp: bad.so"):
        parse_signatures(read_tree(tmp_path / "x.cpp", tmp_path), tmp_path / "bad.so", run_program)


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [
        ("unsigned long long int", "uint64"),
        ("long unsigned", "uint64"),
        ("signed char", "int8"),
        ("unsigned", "uint32"),
        ("short int", "int16"),
        ("std::size_t", "uint64"),
        ("::std::uint_least16_t", "uint16"),
        ("int_fast32_t", "int64"),
        ("std :: complex < double >", "complex128"),
        ("half", "float16"),
        ("__nv_bfloat16", "bfloat16"),
        ("long double", None),
        ("__int128", None),
        ("wchar_t", None),
        ("", None),
    ],
)
def test_spellings(spelling: str, dtype: str | None) -> None:
    assert dtype_of(spelling, {}) == dtype


def test_names_of_sixteen_bit_floats_count_only_where_they_fit() -> None:
    assert dtype_of("bf16", {"bf16": "uint16_t"}) == "bfloat16"
    assert dtype_of("half", {"half": None}) == "float16"
    assert dtype_of("half", {"half": "float"}) == "float32"
    assert dtype_of("a", {"a": "b", "b": "a"}) is None
