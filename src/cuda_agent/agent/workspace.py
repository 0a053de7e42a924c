"""The folder a policy works in: `model.py` (a copy), `SKILL.md`, `model_new.py`, `kernels/`.

Whatever lies here was written by a policy or by programs that it ran, so every path is resolved (symbolic links
included) before this process opens it, only plain files are read, and sizes are limited. The judge takes the task from
memory: `model.py` here is for reading.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuda_agent.errors import SolutionError, UsageError
from cuda_agent.solution import ENTRY, MAX_FILES, SOURCE_SUFFIXES, Solution
from cuda_agent.sources import local_imports
from cuda_agent.task import Task

MAX_READ_BYTES = 4 << 20
MAX_WRITE_BYTES = 1 << 20
SKILL = "SKILL.md"
OUTPUTS = ".outputs"
INSIDE = "/workspace/"
"""What a sandboxed command sees the workspace as."""
_SOLUTION_FOLDERS = ("kernels", "utils")
_SOLUTION_FILES = {ENTRY, "binding.cpp", "binding_registry.h"}


class Workspace:
    """`folder` is made and filled; opening an existing one restores `model.py` and `SKILL.md` and keeps the rest."""

    def __init__(self, folder: Path, task: Task, skill: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.protected = {*task.files, SKILL}
        if not os.path.lexists(self.folder / "kernels"):
            (self.folder / "kernels").mkdir()
        for name, text in {**task.files, SKILL: skill}.items():
            self._put(self.path(str(Path(name).parent)) / Path(name).name, text)

    def path(self, given: str) -> Path:
        """The absolute path that `given` leads to. Raises UsageError if that is outside the workspace."""
        if not given or "\0" in given or len(given) > 1000 or any(len(part) > 100 for part in given.split("/")):
            raise UsageError(
                f"{given[:100]!r} is no path; give one relative to the workspace, such as kernels/fused.cpp"
            )
        try:
            resolved = (self.folder / given.removeprefix(INSIDE)).resolve()
        except (OSError, RuntimeError) as error:
            raise UsageError(f"{given!r} cannot be resolved: {error}") from None
        if not resolved.is_relative_to(self.folder):
            raise UsageError(f"{given!r} leads outside the workspace; give a path relative to it, as in kernels/x.cpp")
        return resolved

    def name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def read(self, given: str) -> str:
        """The text of a plain file. Raises UsageError, with what lies beside it when there is none."""
        path = self.path(given)
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise UsageError(f"{given} is a folder; it holds: {self._listing(path)}")
            if not stat.S_ISREG(mode):
                raise UsageError(f"{given} is no plain file")
            if path.stat().st_size > MAX_READ_BYTES:
                raise UsageError(f"{given} has {path.stat().st_size} bytes, more than {MAX_READ_BYTES}; cut it in bash")
            return path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"there is no {given}; {self._nearby(path)}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{given} is not UTF-8 text") from None
        except OSError as error:
            raise UsageError(f"{given} cannot be read: {error.strerror}") from None

    def check_write(self, given: str, text: str) -> str:
        """The name under which `text` may be written. Raises UsageError if it may not."""
        path = self.path(given)
        name = self.name(path)
        if name in self.protected:
            raise UsageError(
                f"{name} is a copy that nobody reads but you: the judge has its own. Write {ENTRY} instead"
            )
        if path.is_dir():
            raise UsageError(f"{given} is a folder; give the name of a file")
        if path.exists() and not path.is_file():
            raise UsageError(f"{given} is no plain file")
        if blocker := next((p for p in path.parents if p.exists() and not p.is_dir()), None):
            raise UsageError(f"{given}: {self.name(blocker)} is a file, not a folder")
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_WRITE_BYTES:
            raise UsageError(f"{given} would have {size} bytes; a file may have {MAX_WRITE_BYTES}")
        return name

    def write(self, files: Mapping[str, str]) -> None:
        """Puts files in place, each at once, so that a reader never sees half of one. Raises UsageError, OSError."""
        for given, text in files.items():
            self._put(self.folder / self.check_write(given, text), text)

    def keep_output(self, name: str, text: str) -> str:
        """Saves a long output where `read` and `grep` find it; returns its path relative to the workspace."""
        self._put(self.path(f"{OUTPUTS}/{name}"), text)
        return f"{OUTPUTS}/{name}"

    def solution(self, name: str = "solution") -> Solution:
        """What was written so far: `model_new.py`, what it imports, `kernels/`. Raises SolutionError."""
        try:
            if not (self.folder / ENTRY).exists():
                raise SolutionError(f"there is no {ENTRY} yet: write one that defines ModelNew")
            source = self.read(ENTRY)
            names = [name for name in local_imports(self.folder / ENTRY, source) if name not in self.protected]
            names += [self.name(path) for path in self._sources()]
            if len(names) > MAX_FILES:
                raise SolutionError(f"kernels/ holds more than {MAX_FILES} source files")
            return Solution({ENTRY: source, **{name: self.read(name) for name in names}}, name)
        except SolutionError:
            raise
        except (UsageError, OSError, ValueError) as error:
            raise SolutionError(f"the solution cannot be read: {error}") from None

    def _sources(self) -> Iterator[Path]:
        yield from (self.folder / name for name in sorted(_SOLUTION_FILES - {ENTRY}) if (self.folder / name).exists())
        for path in self.walk(*_SOLUTION_FOLDERS):
            if path.suffix in SOURCE_SUFFIXES:
                yield path

    def walk(self, *tops: str) -> Iterator[Path]:
        """Plain files below the workspace or some of its folders, sorted; symbolic links are not followed."""
        for top in tops or (".",):
            for folder, folders, files in os.walk(self.path(top)):
                folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git"))
                for file in sorted(files):
                    path = Path(folder, file)
                    if stat.S_ISREG(path.lstat().st_mode):
                        yield path

    def _put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # a new name each time: a link that lies there already would lead the write elsewhere
        descriptor, scratch = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        os.chmod(scratch, 0o644)
        os.replace(scratch, path)

    def _nearby(self, path: Path) -> str:
        folder = next(p for p in path.parents if p.is_dir())
        where = "the workspace" if folder == self.folder else self.name(folder) + "/"
        return f"{where} holds: {self._listing(folder)}"

    def _listing(self, folder: Path) -> str:
        names = sorted(p.name + "/" * p.is_dir() for p in folder.iterdir() if p.name[0] != ".")
        return (", ".join(names[:40]) + (", …" if len(names) > 40 else "")) or "nothing"
