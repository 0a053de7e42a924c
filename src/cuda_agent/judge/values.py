"""Nested values whose tensors are raw bytes: what the parent holds of inputs, parameters and outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_agent.judge.worker import wire

Bytes = Any
"""A flat, contiguous array of bytes: numpy's in host memory, torch's (uint8) in that of a device."""
Floats = Any
"""A flat array of floats of either kind: see `floats`."""

_NUMPY = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": np.uint16, "int8": np.int8,
    "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8, "bool": np.bool_,
    "complex64": np.complex64, "complex128": np.complex128,
}  # fmt: skip
FLOATING = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")


@dataclass(frozen=True)
class Spec:
    """A strided tensor: dtype, shape and strides in elements; `bytes` from its first to its last element."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    bytes: int

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATING

    @property
    def itemsize(self) -> int:
        return np.dtype(_NUMPY[self.dtype]).itemsize

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    def as_json(self, offset: int) -> dict[str, Any]:
        return {
            "dtype": self.dtype,
            "shape": self.shape,
            "stride": self.stride,
            "bytes": self.bytes,
            "offset": offset,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Spec:
        """From a worker's row, which may hold anything. Raises ValueError."""
        try:
            shape, stride = tuple(row["shape"]), tuple(row["stride"])
            dtype, size = row["dtype"], row["bytes"]
        except (KeyError, TypeError):
            raise ValueError("malformed tensor") from None
        integers = all(type(n) is int and 0 <= n < 1 << 48 for n in (*shape, *stride, size))
        if not integers or len(shape) != len(stride) or len(shape) > 64 or dtype not in _NUMPY:
            raise ValueError("malformed tensor")
        spec = cls(dtype, shape, stride, size)
        last = sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        if spec.bytes != (0 if 0 in shape else (last + 1) * spec.itemsize):
            raise ValueError("malformed tensor")
        return spec


@dataclass(frozen=True)
class Value:
    """A nested value: `tree` as in `worker.wire`, and for each tensor its spec and bytes."""

    tree: Any
    specs: tuple[Spec, ...]
    data: tuple[Bytes, ...]

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any], data: Sequence[Bytes]) -> Value:
        """What a worker replied with; host memory, which it shares, is copied. Raises ValueError if it is malformed."""
        specs = tuple(Spec.from_row(row) for row in reply.get("tensors", []))
        if len(specs) != len(data) or any(s.bytes != len(d) for s, d in zip(specs, data, strict=True)):
            raise ValueError("malformed reply")
        wire.decode(reply.get("tree"), lambda i: specs[i])
        return cls(
            reply["tree"],
            specs,
            tuple(d.copy() if isinstance(d, np.ndarray) else d for d in data),
        )

    @property
    def bytes(self) -> int:
        return sum(spec.bytes for spec in self.specs)

    def offsets(self) -> list[int]:
        """Where each tensor starts when they lie one after the other at multiples of 64, and the end."""
        ends = [0]
        for spec in self.specs:
            ends.append(ends[-1] + (spec.bytes + 63) // 64 * 64)
        return ends

    def replaced(self, data: Sequence[Bytes]) -> Value:
        return Value(self.tree, self.specs, tuple(data))


def array(spec: Spec, data: Any) -> Any:
    """The tensor in its logical shape (a strided view); bfloat16 as float32 for numpy, which has no such type."""
    if not isinstance(data, np.ndarray):
        import torch

        return data.view(getattr(torch, spec.dtype)).as_strided(spec.shape, spec.stride)
    if spec.numel == 0:
        return np.zeros(spec.shape, np.float32 if spec.dtype == "bfloat16" else _NUMPY[spec.dtype])
    flat: npt.NDArray[Any] = data.view(_NUMPY[spec.dtype])
    strides = [s * spec.itemsize for s in spec.stride]
    view = np.lib.stride_tricks.as_strided(flat, spec.shape, strides)
    if spec.dtype == "bfloat16":
        return (view.astype(np.uint32) << 16).view(np.float32)
    return view


def floats(spec: Spec, data: Any) -> Any:
    """All elements in logical order, flat; complex numbers as pairs. As float64, on a device as they are (half types
    as float32), since large tensors lie there: who computes with them takes them in parts and doubles those."""
    logical = array(spec, data)
    if not isinstance(data, np.ndarray):
        import torch

        flat = (torch.view_as_real(logical) if logical.is_complex() else logical).reshape(-1)
        return flat.float() if flat.dtype in (torch.float16, torch.bfloat16) else flat
    logical = np.ascontiguousarray(logical)
    if logical.dtype.kind == "c":
        logical = logical.view(np.float32 if logical.dtype == np.complex64 else np.float64)
    with np.errstate(invalid="ignore"):
        return logical.reshape(-1).astype(np.float64)


def exact(spec: Spec, data: Any) -> Any:
    """All elements of an integer or boolean tensor in logical order, flat."""
    logical = array(spec, data)
    return (np.ascontiguousarray(logical) if isinstance(data, np.ndarray) else logical).reshape(-1)


def skeleton(tree: Any) -> Any:
    """The structure without numbers: what must be the same on both sides."""
    kind = tree[0]
    if kind in "ul":
        return [kind, *[skeleton(v) for v in tree[1:]]]
    if kind == "d":
        return [kind, *sorted(([k, skeleton(v)] for k, v in tree[1:]), key=repr)]
    if kind == "s":
        return tree
    return [kind]


def numbers(tree: Any) -> list[tuple[str, float | int | bool]]:
    """The Python numbers of a value in order: (kind, number) with kind b, i or f."""
    kind = tree[0]
    if kind in "bif":
        return [(kind, wire.decode(tree, lambda i: i))]
    if kind in "ul":
        return [row for child in tree[1:] for row in numbers(child)]
    if kind == "d":
        return [row for _, child in sorted(tree[1:], key=lambda kv: repr(kv[0])) for row in numbers(child)]
    return []


def tensor_order(tree: Any) -> list[int]:
    """Indices of the tensors in the order of the structure (dicts by key), so that two values pair up."""
    kind = tree[0]
    if kind == "t":
        return [tree[1]]
    if kind in "ul":
        return [i for child in tree[1:] for i in tensor_order(child)]
    if kind == "d":
        return [i for _, child in sorted(tree[1:], key=lambda kv: repr(kv[0])) for i in tensor_order(child)]
    return []


def tensor_paths(tree: Any) -> list[str]:
    """Where each tensor stands in the structure, as Python would index it, in the order of `tensor_order`."""
    kind = tree[0]
    if kind == "t":
        return [""]
    if kind in "ul":
        return [f"[{i}]{path}" for i, child in enumerate(tree[1:]) for path in tensor_paths(child)]
    if kind == "d":
        pairs = sorted(tree[1:], key=lambda kv: repr(kv[0]))
        return [f"[{_key(key)}]{path}" for key, child in pairs for path in tensor_paths(child)]
    return []


def _key(tree: Any) -> str:
    return repr(tree[1]) if tree[0] == "s" else str(tree[-1])


def describe(tree: Any, specs: Sequence[Spec]) -> str:
    """The structure for a person: `tuple(float32[4, 8], int64[4])`."""
    kind = tree[0]
    match kind:
        case "t":
            return f"{specs[tree[1]].dtype}{list(specs[tree[1]].shape)}"
        case "n":
            return "None"
        case "b" | "i" | "f" | "s":
            return {"b": "bool", "i": "int", "f": "float", "s": "str"}[kind]
        case "d":
            inner = ", ".join(f"{k[1]!r}: {describe(v, specs)}" for k, v in tree[1:])
            return f"{{{inner}}}"
    inner = ", ".join(describe(v, specs) for v in tree[1:])
    return f"({inner})" if kind == "u" else f"[{inner}]"
