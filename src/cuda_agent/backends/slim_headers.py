"""Writes the two headers of one build that the slim stand-in for torch/extension.h includes.

`cuda_agent/wanted.h` says which of the heavy headers the source needs, `cuda_agent/generated.h` includes torch's small
headers of the operators that it names. How a Python tensor holds its C++ tensor is read from torch's own header, as
it differs by version.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parent / "slim"
FLAGS = ("-DAT_PER_OPERATOR_HEADERS",)  # torch's headers then include the operators that they need, not all

_NAME = re.compile(r"\b(?:torch|at)::(\w+)")
_CALL = re.compile(r"(?<![\w.>:])(\w+)\s*\(")
_OPEN_NAMESPACE = re.compile(r"\busing\s+namespace\s+(?:torch|at)\s*;")
_HOLDER = re.compile(r"struct THPVariable \{\s*PyObject_HEAD;?\s*(?://[^\n]*\s*)*([\w:<>]+) cdata;")
_WRAP = re.compile(r"TORCH_PYTHON_API PyObject\* THPVariable_Wrap\([^)]*\);")

_WHERE_NAMED = (
    (r"\bAT_DISPATCH_|\bAT_PRIVATE_", "ATen/Dispatch.h"),
    (r"\bparallel_(?:for|reduce)\b|\b[gs]et_num_threads\b|\bin_parallel_region\b|\bdivup\b", "ATen/Parallel.h"),
    (r"\b(?:NoGradGuard|AutoGradMode|GradMode)\b", "ATen/core/grad_mode.h"),
    (r"\bInferenceMode\b", "c10/core/InferenceMode.h"),
    (r"\birange\b", "c10/util/irange.h"),
    (r"\bindexing\b|\bindex(?:_put_)?\s*\(\s*\{", "ATen/TensorIndexing.h"),
    (r"\bDeviceGuard\b", "ATen/DeviceGuard.h"),
    (r"\bstd::(?:cout|cerr|ostream)\b", "ATen/core/Formatting.h"),
    (r"\bTORCH_LIBRARY", "torch/library.h"),
    (r"\bmanual_seed\b|\bglobalContext\b", "ATen/Context.h"),
    (r"\b(?:cat|concat|stack|hstack|vstack|dstack|column_stack|meshgrid|block_diag)\b", "ATen/core/IListRef.h"),
    (r"\bTensorGeometryArg\b|\bTensorArg\b|\bcheckAll\w+", "ATen/TensorUtils.h"),
)


def generated_headers(source: str, torch_include: Path) -> dict[str, str] | None:
    """The headers' text by name for a source (all units together); None where this version of torch is not known."""
    try:
        variable = (torch_include / "torch/csrc/autograd/python_variable.h").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    holder, wraps = _HOLDER.search(variable), _WRAP.findall(variable)
    if holder is None or not wraps:
        return None
    named = [header for pattern, header in _WHERE_NAMED if re.search(pattern, source)]
    operators = [f"ATen/ops/{name}.h" for name in sorted(operator_names(source))]
    included = [header for header in (*named, *operators) if (torch_include / header).is_file()]
    generated = [
        "#pragma once",
        "#include <Python.h>",
        "#include <ATen/core/Tensor.h>",
        "#include <ATen/TensorOperators.h>",
        "#include <torch/csrc/Export.h>",
        *(f"#include <{header}>" for header in included),
        "TORCH_PYTHON_API extern PyObject* THPVariableClass;",
        *wraps,
        f"namespace cuda_agent {{ struct TensorObject {{ PyObject_HEAD {holder[1]} cdata; }}; }}",
    ]
    wanted = ["#pragma once"] + [f"#define CUDA_AGENT_WANTS_{Path(header).stem.upper()}" for header in named]
    return {
        "cuda_agent/generated.h": "\n".join(generated) + "\n",
        "cuda_agent/wanted.h": "\n".join(wanted) + "\n",
    }


def operator_names(source: str) -> set[str]:
    """What the source may mean as an operator: `torch::name`, `at::name`, and calls where a namespace is opened."""
    names = set(_NAME.findall(source))
    if _OPEN_NAMESPACE.search(source):
        names |= set(_CALL.findall(source))
    # at::relu_ is declared by relu.h, at::mm_out by mm.h
    return names | {name.rstrip("_") for name in names} | {re.sub(r"_outf?$", "", name) for name in names}
