"""What a kernel's functions take and return, as the JSON that lies beside the source (`x.cpp.sig.json`).

`dtype` is the element type in torch's spelling ("float32", "int64", "bool", …; "any" for `void*`), for scalars and
returned numbers too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from cuda_agent.runtime.errors import KernelError

SCHEMA = 1
SUFFIX = ".sig.json"

Kind = Literal["pointer", "scalar", "stream"]

INTEGER_BITS = {
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
}
SCALARS = frozenset({*INTEGER_BITS, "float32", "float64", "bool"})
ELEMENTS = SCALARS | {"float16", "bfloat16", "complex64", "complex128", "any"}


@dataclass(frozen=True)
class Parameter:
    """One parameter: `type` is the C spelling for messages, `const` says that what it points to is only read."""

    name: str
    type: str
    kind: Kind
    dtype: str
    const: bool = False


@dataclass(frozen=True)
class Function:
    """A function that Python calls, `extern "C"`; or, with `launch`, a `__global__` one that it launches.

    `returns` is "void" or the dtype of the number that it returns, `symbol` its name in the built file."""

    name: str
    returns: str
    parameters: tuple[Parameter, ...]
    launch: bool = False
    symbol: str = ""

    def __str__(self) -> str:
        listed = ", ".join(f"{p.type} {p.name}".strip() for p in self.parameters)
        return f"{self.name}({listed})"


@dataclass(frozen=True)
class Signatures:
    """All that `extern "C"` offers in one source; `unsupported` maps the rest to the reason why not."""

    digest: str
    functions: tuple[Function, ...]
    unsupported: dict[str, str]

    def as_data(self) -> dict[str, Any]:
        functions = [_function_data(function) for function in self.functions]
        unsupported = [{"name": name, "reason": reason} for name, reason in self.unsupported.items()]
        return {
            "schema": SCHEMA,
            "source_sha256": self.digest,
            "functions": functions,
            "unsupported": unsupported,
        }

    def to_json(self) -> str:
        return json.dumps(self.as_data(), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Signatures:
        """Raises KernelError if `text` is no signature file of this schema."""
        try:
            data = json.loads(text)
            if data["schema"] != SCHEMA:
                raise KernelError(f"signatures of schema {data['schema']}, this version reads {SCHEMA}")
            functions = tuple(_function(row) for row in data["functions"])
            unsupported = {str(row["name"]): str(row["reason"]) for row in data.get("unsupported", [])}
            return cls(str(data["source_sha256"]), functions, unsupported)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise KernelError(f"no valid signatures: {type(error).__name__}: {error}") from None


def _function_data(function: Function) -> dict[str, Any]:
    data: dict[str, Any] = {"name": function.name, "returns": function.returns}
    data["parameters"] = [asdict(parameter) for parameter in function.parameters]
    return data | ({"launch": True, "symbol": function.symbol} if function.launch else {})


def _function(row: dict[str, Any]) -> Function:
    parameters = tuple(_parameter(p) for p in row["parameters"])
    returns = str(row["returns"])
    if returns != "void" and returns not in SCALARS:
        raise ValueError(f"{row['name']} returns {returns!r}")
    return Function(str(row["name"]), returns, parameters, bool(row.get("launch", False)), str(row.get("symbol", "")))


def _parameter(row: dict[str, Any]) -> Parameter:
    parameter = Parameter(str(row["name"]), str(row["type"]), row["kind"], str(row["dtype"]), bool(row["const"]))
    known = {"pointer": ELEMENTS, "scalar": SCALARS, "stream": frozenset({"any"})}
    if parameter.dtype not in known.get(parameter.kind, ()):
        raise ValueError(f"parameter {parameter.name}: {parameter.kind} of {parameter.dtype}")
    return parameter


def beside(source: Path) -> Path:
    """Where the signatures of `source` lie."""
    return source.with_name(source.name + SUFFIX)


def read_beside(source: Path, digest: str) -> Signatures | None:
    """The signatures stored beside `source`, or None where they are missing, damaged or of another version of it."""
    try:
        signatures = Signatures.from_json(beside(source).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, KernelError):
        return None
    return signatures if signatures.digest == digest else None
