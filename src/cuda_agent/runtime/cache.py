"""The content-addressed build cache: one folder per key, written once and never changed in place.

    ROOT/entries/<content>-<machine>/   what was built, and manifest.json with size and SHA-256 of each file
    ROOT/locks/, ROOT/tmp/              one flock per key group; work in progress

An entry is made in tmp/, flushed, and renamed into place, so that no reader ever meets half of one. What does not
agree with its manifest (truncated, zeroed, garbage) counts as missing and is built again. A root that cannot be
written to (read-only, full) is replaced by a temporary folder of this process.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cuda_agent.runtime.errors import KernelError

SCHEMA = 1
MANIFEST = "manifest.json"
LOCK_TIMEOUT_S = 900.0
STALE_S = 24 * 3600.0
_UNUSABLE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.ENOENT}
_UNUSABLE |= {errno.EEXIST, errno.EIO, errno.ELOOP, errno.ENOLCK, errno.EFBIG, errno.ENAMETOOLONG}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """What was built (`content`, hex digits) and, computed only when it is asked for, by and for what machine."""

    content: str
    machine: Callable[[], str]

    @property
    def name(self) -> str:
        return f"{self.content[:40]}-{self.machine()[:16]}"


@dataclass(frozen=True)
class Entry:
    """A folder whose files agreed with its manifest when it was looked up."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def bytes(self) -> int:
        return sum(int(row["size"]) for row in self.manifest["files"].values())


class BuildCache:
    """A cache at `root` (written to), with `prebuilt` (only read, no locks) looked at first. Safe between processes."""

    def __init__(self, root: Path, prebuilt: Path | None = None) -> None:
        self.root = root
        self.prebuilt = prebuilt
        self._fallback: Path | None = None

    @classmethod
    def from_environment(cls) -> BuildCache:
        """$CUDA_AGENT_CACHE, else ~/.cache/cuda-agent; and the cache at $CUDA_AGENT_PREBUILT where it is set."""
        prebuilt = os.environ.get("CUDA_AGENT_PREBUILT")
        return cls(default_root(), Path(prebuilt) if prebuilt else None)

    def find(self, key: Key) -> Entry | None:
        """The intact entry of `key`, or None. Takes no lock and writes nothing."""
        if self.prebuilt is not None:
            for folder in sorted((self.prebuilt / "entries").glob(f"{key.content[:40]}-*")):
                entry = read_entry(folder)
                if entry is not None:
                    return entry
        for root in (self.root, self._fallback):
            entry = None if root is None else read_entry(root / "entries" / key.name)
            if entry is not None:
                return entry
        return None

    def get(self, key: Key, make: Callable[[Path], None], info: dict[str, Any] | None = None) -> tuple[Entry, bool]:
        """The entry of `key` and whether it was there. Else `make(folder)` fills a new one, while others wait for it.

        What `make` raises passes through; `info` is stored in the manifest. Raises KernelError without disk space.
        """
        entry = self.find(key)
        if entry is not None:
            return entry, True
        if self._fallback is None:
            try:
                return _make(self.root, key, make, info or {})
            except OSError as error:
                if error.errno not in _UNUSABLE:
                    raise
                log.warning("the build cache %s cannot be written (%s): using a temporary folder", self.root, error)
                self._fallback = private_root()
        try:
            return _make(self._fallback, key, make, info or {})
        except OSError as error:
            message = f"there is nowhere to build: neither {self.root} nor {self._fallback} can be written ({error})"
            raise KernelError(f"{message}; free some space, or set CUDA_AGENT_CACHE to a writable folder") from None

    def entries(self) -> list[Entry]:
        """All entries with a readable manifest, the least recently made first (contents are not verified)."""
        found = []
        for folder in _listed(self.root / "entries"):
            manifest = _read_manifest(folder)
            if manifest is not None:
                found.append(Entry(folder, manifest))
        return sorted(found, key=lambda entry: float(entry.manifest["created"]))

    def remove(self, entry: Entry) -> None:
        _discard(self.root, entry.folder)

    def clear(self) -> int:
        """Removes every entry, damaged ones too; returns how many."""
        folders = _listed(self.root / "entries")
        for folder in folders:
            _discard(self.root, folder)
        for kept in ("solutions", "triton"):  # what workers built for one solution's own later ones
            shutil.rmtree(self.root / kept, ignore_errors=True)
        return len(folders)


def default_root() -> Path:
    """$CUDA_AGENT_CACHE, else ~/.cache/cuda-agent, else (no home) a temporary folder of this process."""
    chosen = os.environ.get("CUDA_AGENT_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base, "cuda-agent").absolute()
    except RuntimeError:
        return private_root()


@cache
def private_root() -> Path:
    """A temporary folder that goes with this process."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="cuda-agent-"))
    except OSError as error:
        raise KernelError(f"no temporary folder can be made: {error.strerror}; set TMPDIR to a writable one") from None
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder


def read_entry(folder: Path) -> Entry | None:
    """The entry in `folder` if every file has the size and SHA-256 of its manifest."""
    manifest = _read_manifest(folder)
    if manifest is None:
        return None
    try:
        for name, row in manifest["files"].items():
            file = folder / name
            if file.stat().st_size != row["size"] or _sha256(file) != row["sha256"]:
                return None
    except OSError:
        return None
    return Entry(folder, manifest)


def write_manifest(folder: Path, info: dict[str, Any]) -> None:
    """Describes every file in `folder` (no subfolders) and flushes all of it to the disk."""
    files = {}
    for file in sorted(folder.iterdir()):
        _flush(file)
        files[file.name] = {"size": file.stat().st_size, "sha256": _sha256(file)}
    data = {"schema": SCHEMA, "created": time.time(), **info, "files": files}
    (folder / MANIFEST).write_text(json.dumps(data, indent=1), encoding="utf-8")
    _flush(folder / MANIFEST)
    _flush(folder)


def _make(root: Path, key: Key, make: Callable[[Path], None], info: dict[str, Any]) -> tuple[Entry, bool]:
    target = root / "entries" / key.name
    for name in ("entries", "locks", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    with _locked(root / "locks" / key.name[:2]):
        entry = read_entry(target)
        if entry is not None:
            return entry, True
        _remove_stale(root / "tmp")
        work = Path(tempfile.mkdtemp(dir=root / "tmp"))
        try:
            make(work)
            work.chmod(0o755)  # a sandbox's user reads it too, where it is shown there
            write_manifest(work, {"key": key.name, **info})
            return _publish(root, work, target), False
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        rows = manifest["files"].items()
        intact = all(isinstance(row["size"], int) and isinstance(row["sha256"], str) for _, row in rows)
        usable = intact and manifest["schema"] == SCHEMA and float(manifest["created"]) > 0
        return manifest if usable else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _publish(root: Path, work: Path, target: Path) -> Entry:
    """Renames `work` to `target`, over a damaged entry too; one that another process put there meanwhile is kept."""
    for _ in range(3):
        try:
            os.rename(work, target)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            present = read_entry(target)
            if present is not None:
                return present
            _discard(root, target)
    entry = read_entry(target)
    if entry is None:
        raise OSError(errno.EIO, f"{target} changed while it was written")
    _flush(target.parent)
    return entry


def _discard(root: Path, folder: Path) -> None:
    """Moves an entry away in one step, so that nobody reads a half-removed one, and then deletes it."""
    trash = root / "tmp" / f"trash-{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
    try:
        os.rename(folder, trash)
    except FileNotFoundError:
        return
    if trash.is_dir() and not trash.is_symlink():
        shutil.rmtree(trash, ignore_errors=True)
    else:
        trash.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An exclusive flock, which ends with its process; a holder that never lets go is not waited for for ever."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    log.warning("gave up waiting for %s: building without it", path)
                    break
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)


def _remove_stale(tmp: Path) -> None:
    """Removes what killed processes left behind a day ago or longer."""
    for left in _listed(tmp):
        try:
            if time.time() - left.stat().st_mtime > STALE_S:
                shutil.rmtree(left, ignore_errors=True)
        except OSError:
            continue


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
