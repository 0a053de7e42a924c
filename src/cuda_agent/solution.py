"""A candidate answer to a task: a few text files.

Three formats are told apart by what the files hold: `native` (`model_new.py` beside `kernels/`, loaded through
`cuda_agent.runtime`), `kernelbench` (one Python file with `ModelNew`) and `cuda-agent` (the released CUDA-Agent work
directory with its `binding.cpp`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from cuda_agent.errors import SolutionError
from cuda_agent.sources import content_id, imports, local_imports, parsed, read_text, text_of

Format = Literal["native", "kernelbench", "cuda-agent"]

ENTRY = "model_new.py"
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".ipp")
SOURCE_SUFFIXES = (".py", ".cpp", ".cc", ".cxx", ".c", ".cu", *_HEADERS, ".json")
_IGNORED = {"__pycache__", ".git"}
_IGNORED_AT_THE_TOP = {"build", "cuda_agent"}
MAX_DEPTH = 8
MAX_FILES = 200


@dataclass(frozen=True)
class Solution:
    """`files` maps a path relative to the solution's folder to its text; `model_new.py` defines `ModelNew`."""

    files: Mapping[str, str]
    name: str = field(default="solution", compare=False)

    def __post_init__(self) -> None:
        if ENTRY not in self.files:
            raise SolutionError(f"a solution needs a {ENTRY} that defines ModelNew; it has {sorted(self.files)}")
        for path in self.files:
            if Path(path).is_absolute() or ".." in Path(path).parts:
                raise SolutionError(f"{path!r} leaves the solution's folder")
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        object.__setattr__(self, "name", text_of(self.name))

    @cached_property
    def id(self) -> str:
        """12 hex digits that name the content; comments and layout of Python files do not count."""
        return content_id(self.files)

    @property
    def format(self) -> Format:
        if "binding.cpp" in self.files or "binding_registry.h" in self.files:
            return "cuda-agent"
        return "native" if any(path.startswith("kernels/") for path in self.files) else "kernelbench"

    @property
    def kernels(self) -> list[str]:
        """The kernel sources that a backend takes: `kernels/*.{cpp,cc,cxx,cu}` and every Python file that imports
        Triton, sorted."""
        compiled = (p for p in self.files if p.startswith("kernels/") and p.endswith((".cpp", ".cc", ".cxx", ".cu")))
        return sorted([*compiled, *self.triton])

    @cached_property
    def triton(self) -> list[str]:
        """The Python files that import Triton, sorted."""
        return sorted(p for p, text in self.files.items() if p.endswith(".py") and imports(text, "triton"))

    @classmethod
    def from_source(cls, source: str, kernels: Mapping[str, str] | None = None, name: str = "solution") -> Solution:
        """A solution from the text of `model_new.py` and, by file name, of the files under `kernels/`."""
        return cls({ENTRY: source, **{f"kernels/{k}": text for k, text in (kernels or {}).items()}}, name)

    @classmethod
    def from_path(cls, path: str | Path) -> Solution:
        """A solution from a file (KernelBench format) or a folder. Raises SolutionError."""
        path = Path(path)
        try:
            if path.is_dir():
                return cls(_read_folder(path), path.name)
            source = read_text(path)
            return cls({ENTRY: source, **local_imports(path, source)}, path.stem)
        except FileNotFoundError:
            raise SolutionError(f"no such solution: {path}") from None
        except (OSError, ValueError) as error:
            raise SolutionError(f"the solution {path} cannot be read: {error}") from None

    def write(self, folder: Path) -> None:
        """Writes the files below `folder`, which is made when it is missing."""
        for name, text in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def syntax_error(self) -> str | None:
        """The first syntax error of a Python file as `file:line:column: message`, or None."""
        for name, text in self.files.items():
            if name.endswith(".py"):
                try:
                    parsed(text)
                except SyntaxError as error:
                    place = f":{error.lineno}:{error.offset}" if error.lineno else ""
                    return f"{name}{place}: {error.msg}"
                except ValueError as error:
                    return f"{name}: {error}"
        return None


def _read_folder(folder: Path) -> dict[str, str]:
    if not (folder / ENTRY).is_file():
        raise ValueError(f"it has no {ENTRY}")
    files: dict[str, str] = {}
    for file in _walk(folder):
        relative = file.relative_to(folder)
        if file.suffix not in SOURCE_SUFFIXES or not file.is_file():
            continue
        if len(relative.parts) > 1 and relative.parts[0] not in ("kernels", "utils") and file.suffix == ".json":
            continue
        files[relative.as_posix()] = read_text(file)
        if len(files) > MAX_FILES:
            raise ValueError(f"it has more than {MAX_FILES} source files; is this a solution's folder?")
    # model.py is the task's; results lie beside the best solution in a run's folder
    for name in ("model.py", "verdict.json"):
        files.pop(name, None)
    return files


def _walk(folder: Path) -> list[Path]:
    """The files below `folder`, through links to other folders too, sorted."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder, followlinks=True):
        depth = len(Path(place).relative_to(folder).parts)
        ignored = _IGNORED if depth else _IGNORED | _IGNORED_AT_THE_TOP
        folders[:] = [name for name in folders if name not in ignored and depth < MAX_DEPTH]
        found += [Path(place, name) for name in names]
    return sorted(found)
