"""A kernel source with the local files that it includes: exactly what its build may see, and so its cache key.

A file that `#include "..."` does not name in plain text (through a macro, say) is not seen by the build either.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cuda_agent.runtime.errors import KernelBuildError, KernelError

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class SourceTree:
    """`files` maps paths relative to `root` to their bytes; `main` is the one to compile."""

    root: Path
    main: str
    files: Mapping[str, bytes]

    @cached_property
    def digest(self) -> str:
        """SHA-256 (64 hex digits) over contents and places relative to the main file, whose own name does not count."""
        folder, suffix = os.path.split(self.main)[0], Path(self.main).suffix
        rows = sorted(
            ("" if name == self.main else os.path.relpath(name, folder or "."), hashlib.sha256(data).hexdigest())
            for name, data in self.files.items()
        )
        return hashlib.sha256(json.dumps([suffix, rows]).encode()).hexdigest()

    @property
    def text(self) -> bytes:
        return self.files[self.main]

    def write(self, folder: Path) -> None:
        for name, data in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def read_tree(source: Path, root: Path) -> SourceTree:
    """`source` and its includes below `root`. Raises KernelError if it is missing, outside of `root` or too large."""
    source, root = Path(os.path.abspath(source)), Path(os.path.abspath(root))
    if root not in source.parents:
        raise KernelError(f"{source} is not below {root}")
    main = source.relative_to(root).as_posix()
    files: dict[str, bytes] = {main: _read(source)}
    waiting = [main]
    while waiting:
        name = waiting.pop()
        for included in _INCLUDE.findall(files[name]):
            found = _resolve(included.decode("utf-8", "replace"), root, Path(name).parent)
            if found is not None and found not in files:
                files[found] = _read(root / found)
                waiting.append(found)
        if sum(map(len, files.values())) > MAX_BYTES:
            raise KernelBuildError(f"{main} and what it includes have more than {MAX_BYTES >> 20} MiB")
    return SourceTree(root, main, files)


def _resolve(included: str, root: Path, folder: Path) -> str | None:
    """The path of an included file relative to `root`, searched beside the includer and then in `root`."""
    for base in (root / folder, root):
        file = Path(os.path.normpath(base / included))
        if root in file.parents and file.is_file():
            return file.relative_to(root).as_posix()
    return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise KernelError(f"the kernel source {file} cannot be read: {error.strerror}") from None
