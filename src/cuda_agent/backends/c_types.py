"""C and C++ spellings of numbers, as torch's dtypes (on a platform where `long` has 64 bits)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

_WORDS = {"signed", "unsigned", "long", "short", "int", "char"}
_NAMED = {
    "float": "float32",
    "double": "float64",
    "bool": "bool",
    "_Bool": "bool",
    "void": "any",
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "intmax_t": "int64",
    "uintmax_t": "uint64",
    "int_fast8_t": "int8",
    "uint_fast8_t": "uint8",
    "std::byte": "uint8",
    "complex<float>": "complex64",
    "complex<double>": "complex128",
}
for _bits in (8, 16, 32, 64):
    for _sign in ("int", "uint"):
        _NAMED |= {f"{_sign}{_bits}_t": f"{_sign}{_bits}", f"{_sign}_least{_bits}_t": f"{_sign}{_bits}"}
        if _bits > 8:
            _NAMED[f"{_sign}_fast{_bits}_t"] = f"{_sign}64"

FLOAT16_NAMES = ("half", "__half", "_Float16", "float16", "float16_t", "fp16", "fp16_t", "Half")
BFLOAT16_NAMES = ("bf16", "bf16_t", "bfloat16", "bfloat16_t", "__bf16", "__nv_bfloat16", "BFloat16")
_SIXTEEN_BITS = ("uint16", "int16", "float16", "bfloat16")


def dtype_of(spelling: str, typedefs: Mapping[str, str | None], depth: int = 0) -> str | None:
    """The dtype of a type without qualifiers, or None. `typedefs` maps a name to its type, None for a struct.

    A 16-bit integer or a struct that the source itself calls `half`, `bf16` or the like is that float type.
    """
    name = re.sub(r"\s*([<>,:])\s*", r"\1", " ".join(spelling.split())).removeprefix("::").removeprefix("std::")
    words = name.split(" ")
    if set(words) <= _WORDS:
        return _integer(Counter(words))
    if name in typedefs and depth < 16:
        target = typedefs[name]
        meant = None if target is None else dtype_of(target, typedefs, depth + 1)
        by_name = _sixteen_bit_float(name)
        return by_name if by_name and (target is None or meant in _SIXTEEN_BITS) else meant
    return _NAMED.get(name) or _sixteen_bit_float(name)


def _sixteen_bit_float(name: str) -> str | None:
    if name in FLOAT16_NAMES:
        return "float16"
    return "bfloat16" if name in BFLOAT16_NAMES else None


def _integer(words: Counter[str]) -> str | None:
    if words["char"]:
        bits = 8
    elif words["short"]:
        bits = 16
    else:
        bits = 64 if words["long"] else 32
    return f"{'u' if words['unsigned'] else ''}int{bits}"
