"""C++ for single operations. float32 takes the inline functions of fast_math.h, float64 those of <cmath>."""

from __future__ import annotations

import math
from dataclasses import dataclass

TYPES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
BYTES = {"float32": 4, "float64": 8, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}

_FAST_NAMES = "exp expm1 log log1p sigmoid tanh erf softplus mish gelu gelu_tanh silu"
_FAST = _FAST_NAMES.split()
_STD_NAMES = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
floor ceil trunc"""
_STD = _STD_NAMES.split()
COSTS = dict.fromkeys((*_FAST, *_STD, "elu", "pow", "atan2", "hypot", "fmod", "remainder"), 10)
COSTS |= dict.fromkeys(("floor", "ceil", "trunc"), 1) | {
    "div": 3,
    "sqrt": 3,
    "rsqrt": 4,
    "reciprocal": 3,
    "sin": 20,
    "cos": 20,
}

_ANY = {
    "neg": "-{0}",
    "abs": "{0} < 0 ? -{0} : {0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "bit_and": "{0} & {1}",
    "bit_or": "{0} | {1}",
    "bit_xor": "{0} ^ {1}",
    "bitwise_not": "~{0}",
    "logical_not": "!{0}",
    "isnan": "{0} != {0}",
    "where": "{0} ? {1} : {2}",
    "sign": "T({0} > 0) - T({0} < 0)",
}
_INT = {
    "maximum": "{0} > {1} ? {0} : {1}",
    "minimum": "{0} < {1} ? {0} : {1}",
    "relu": "{0} > 0 ? {0} : 0",
    "div_trunc": "{0} / {1}",
    "div_floor": "floor_divide(T({0}), T({1}))",
    "fmod": "{0} % {1}",
    "remainder": "{0} - floor_divide(T({0}), T({1})) * {1}",
    "fmax": "{0} > {1} ? {0} : {1}",
    "fmin": "{0} < {1} ? {0} : {1}",
}
# a NaN wins in maximum and minimum: the first comparison is false for it, and so the second decides
_FLOAT = {
    "abs": "std::fabs({0})",
    "maximum": "!({0} <= {1}) & ({1} == {1}) ? {0} : {1}",
    "minimum": "!({0} >= {1}) & ({1} == {1}) ? {0} : {1}",
    "relu": "{0} < 0 ? T(0) : {0}",
    "fmax": "std::fmax({0}, {1})",
    "fmin": "std::fmin({0}, {1})",
    "sign": "{0} > 0 ? T(1) : ({0} < 0 ? T(-1) : T(0))",
    "div": "{0} / {1}",
    "div_trunc": "std::trunc({0} / {1})",
    "div_floor": "floor_divide(T({0}), T({1}))",
    "fmod": "std::fmod({0}, {1})",
    "remainder": "remainder_of(T({0}), T({1}))",
    "reciprocal": "1 / {0}",
    "sqrt": "std::sqrt({0})",
    "rsqrt": "1 / std::sqrt({0})",
    "round": "std::nearbyint({0})",
    "isinf": "std::fabs({0}) == T(INFINITY)",
    "isfinite": "std::fabs({0}) < T(INFINITY)",
    "sigmoid": "1 / (1 + std::exp(-{0}))",
    "silu": "{0} / (1 + std::exp(-{0}))",
    "mish": "{0} * std::tanh({0} > 20 ? {0} : std::log1p(std::exp({0})))",
    "softplus": "({0} > 0 ? {0} : 0) + std::log1p(std::exp(-std::fabs({0})))",
    "gelu": "T(0.5) * {0} * (1 + std::erf({0} * T(M_SQRT1_2)))",
    "gelu_tanh": "T(0.5) * {0} * (1 + std::tanh(T(0.7978845608028654) * ({0} + T(0.044715) * {0} * {0} * {0})))",
    "elu": "{0} <= 0 ? {2} * {1} * std::expm1({0} * {3}) : {2} * {0}",
    "hardsigmoid": "({0} < -3 ? T(0) : {0} > 3 ? T(6) : {0} + 3) / 6",
    "hardswish": "{0} * (({0} < -3 ? T(0) : {0} > 3 ? T(6) : {0} + 3) / 6)",
    "pow": "std::pow({0}, {1})",
    "atan2": "std::atan2({0}, {1})",
    "hypot": "std::hypot({0}, {1})",
    "copysign": "std::copysign({0}, {1})",
    **{name: f"std::{name}({{0}})" for name in _STD},
}
_FLOAT32 = {
    **{name: f"fast::{name}({{0}})" for name in _FAST},
    "abs": "fast::absolute({0})",
    "elu": "fast::elu({0}, {1}, {2}, {3})",
    "copysign": "fast::copy_sign({0}, {1})",
    "hardsigmoid": "fast::hard_sigmoid({0})",
    "hardswish": "fast::hard_swish({0})",
}


class NoCode(Exception):
    """There is no C++ for an operation on a dtype."""


def operation(op: str, dtype: str, argument_dtype: str) -> str:
    """A template with `{0}`, `{1}`, … for the arguments, which are names or literals. Raises NoCode."""
    if op == "cast":
        return _cast(argument_dtype, dtype)
    key = argument_dtype if dtype == "bool" else dtype
    tables = [_ANY, _INT]
    if key.startswith("float"):
        tables = [_FLOAT32, _FLOAT, _ANY] if key == "float32" else [_FLOAT, _ANY]
    for table in tables:
        if op in table:
            return table[op].replace("T(", TYPES[key] + "(")
    raise NoCode(f"{op} of {key}")


def _cast(source: str, target: str) -> str:
    if target == "bool":
        return "{0} != 0"
    return f"{TYPES[target]}({{0}})"


def literal(value: float | int | bool, dtype: str) -> str:
    text = _literal(value, dtype)
    return f"({text})" if text.startswith("-") else text


def _literal(value: float | int | bool, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if not dtype.startswith("float"):
        return f"int64_t({int(value)})" if abs(int(value)) >= 1 << 31 else str(int(value))
    if math.isnan(value):
        return f"{TYPES[dtype]}(NAN)"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}{TYPES[dtype]}(INFINITY)"
    if dtype == "float32" and abs(value) > 3.4028235e38:
        return f"{'-' if value < 0 else ''}float(INFINITY)"
    return repr(float(value)) + ("f" if dtype == "float32" else "")


@dataclass(frozen=True)
class Fold:
    """How a reduction accumulates: start value, one step, and OpenMP's name for it."""

    start: str
    step: str
    clause: str


def accumulator(op: str, dtype: str) -> str:
    """The C++ type in which a reduction runs inside one vectorised loop."""
    if op in ("any", "all"):
        return "int"
    return TYPES[dtype]


def fold(op: str, dtype: str) -> Fold:
    kind = TYPES[dtype]
    real = dtype.startswith("float")
    lowest = f"-{kind}(INFINITY)" if real else f"std::numeric_limits<{kind}>::lowest()"
    highest = f"{kind}(INFINITY)" if real else f"std::numeric_limits<{kind}>::max()"
    return {
        "sum": Fold(f"{kind}(0)", "{0} + {1}", "+"),
        "prod": Fold(f"{kind}(1)", "{0} * {1}", "*"),
        "max": Fold(lowest, "{1} > {0} ? {1} : {0}", "max"),
        "min": Fold(highest, "{1} < {0} ? {1} : {0}", "min"),
        "any": Fold("0", "{0} | int({1} != 0)", "|"),
        "all": Fold("1", "{0} & int({1} != 0)", "&"),
    }[op]


def nan_fold(op: str, dtype: str) -> str:
    """One step that lets NaN through, for accumulators that each belong to one element."""
    if dtype.startswith("float") and op in ("max", "min"):
        sign = ">" if op == "max" else "<"
        return f"({{1}} {sign} {{0}}) | ({{1}} != {{1}}) ? {{1}} : {{0}}"
    return fold(op, dtype).step
