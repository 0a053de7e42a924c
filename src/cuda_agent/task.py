"""A task: a PyTorch reference and how to make its inputs, as Python source.

The source defines `Model`, `get_inputs()` and, where the constructor takes arguments, `get_init_inputs()` (the format
of KernelBench and of CUDA-Agent-Ops-6K). Reading a task never runs it: that happens in the judge's sandbox.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cuda_agent.errors import TaskError
from cuda_agent.sources import content_id, local_imports, parsed, read_text, text_of

if TYPE_CHECKING:
    from torch import nn

ENTRY = "model.py"


@dataclass(frozen=True)
class Task:
    """`files` maps relative paths to text; `model.py` is the reference, the rest are local modules that it imports."""

    files: Mapping[str, str]
    name: str = field(default="task", compare=False)

    def __post_init__(self) -> None:
        if ENTRY not in self.files:
            raise TaskError(f"a task needs a {ENTRY}; it has {sorted(self.files)}")
        for path in self.files:
            if Path(path).is_absolute() or ".." in Path(path).parts:
                raise TaskError(f"{path!r} leaves the task's folder")
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        object.__setattr__(self, "name", text_of(self.name))
        _check_source(self.files[ENTRY], self.name)

    @property
    def source(self) -> str:
        return self.files[ENTRY]

    @cached_property
    def id(self) -> str:
        """12 hex digits of the SHA-256 of the normalised source, its init arguments and its local imports."""
        return content_id(self.files)

    @classmethod
    def from_source(cls, source: str, name: str = "task") -> Task:
        """Raises TaskError if the source does not parse or lacks `Model` or `get_inputs`."""
        return cls({ENTRY: source}, name)

    @classmethod
    def from_file(cls, path: str | Path) -> Task:
        """Raises TaskError if the file is missing, is no text, does not parse or is no task."""
        path = Path(path)
        try:
            source = read_text(path)
            imports = local_imports(path, source)
        except FileNotFoundError:
            beside = path.with_name(path.name + ".py")
            hint = f"; did you mean {beside}?" if beside.is_file() else ""
            raise TaskError(f"no such task: {path}{hint}") from None
        except (OSError, ValueError) as error:
            raise TaskError(f"the task {path} cannot be read: {error}") from None
        if ENTRY in imports:
            raise TaskError(f"{path} imports {ENTRY} beside it, but a task's own file gets that name; rename {ENTRY}")
        return cls({ENTRY: source, **imports}, path.stem)

    @classmethod
    def from_module(cls, module: nn.Module, inputs: Any, name: str | None = None) -> Task:
        """A task from a live module and example inputs: forward's arguments as a list, by name, or as one tensor.

        The source is the module in evaluation mode for these shapes; its `Model` takes the module's state dict.
        Raises TaskError.
        """
        from cuda_agent.live_task import module_files

        name = name or type(module).__name__
        return cls(module_files(module, inputs, name), name)

    @classmethod
    def from_reference(cls, reference: str, folder: str | Path = ".") -> Task:
        """A task from `package.module:attribute` or `file.py:attribute`, looked up in `folder` first.

        The attribute is an nn.Module class whose file has `get_inputs()`, or an instance, with `get_inputs()` or
        `example_inputs` beside it. Raises TaskError.
        """
        from cuda_agent.live.reference import reference_files

        files, name = reference_files(reference, Path(folder))
        return cls(files, name)

    def write(self, folder: Path) -> None:
        """Writes the files below `folder`, which is made when it is missing."""
        for name, text in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def _check_source(source: str, name: str) -> None:
    try:
        tree = parsed(source)
    except SyntaxError as error:
        place = f"line {error.lineno}: " if error.lineno else ""
        raise TaskError(f"{name}: {place}{error.msg}") from None
    except ValueError as error:
        raise TaskError(f"{name}: {error}") from None
    defined = _top_level_names(tree)
    if "*" in defined:
        return
    if "Model" not in defined:
        classes = sorted(n.name for n in tree.body if isinstance(n, ast.ClassDef))
        hint = f"it defines {', '.join(classes)}" if classes else "it defines no class"
        raise TaskError(f"{name}: no class Model ({hint}); a task defines Model and get_inputs()")
    if "get_inputs" not in defined:
        raise TaskError(f"{name}: no get_inputs(); a task defines Model and get_inputs()")


def _top_level_names(tree: ast.Module) -> set[str]:
    """Names bound at module level, also inside if/try/with blocks; "*" where a star import may bind any."""
    names: set[str] = set()
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                names.add(child.id)
        for block in ("body", "orelse", "finalbody", "handlers"):
            for child in getattr(node, block, []):
                waiting.extend(child.body if isinstance(child, ast.ExceptHandler) else [child])
    return names
