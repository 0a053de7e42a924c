"""The build cache under parallel use, damage, read-only folders and full disks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.runtime import BuildCache, KernelError, Key, read_tree
from cuda_agent.runtime.cache import MANIFEST
from cuda_agent.runtime.compiler import LIBRARY

from .conftest import Loader, python

ANSWER = 'extern "C" int answer() { return 42; }'
KEY = Key("c" * 64, lambda: "m" * 64)
USE = """
import ctypes, pathlib
from cuda_agent.runtime import BuildCache, build, read_tree
path = pathlib.Path({path!r})
built = build(read_tree(path, path.parent), cache=BuildCache.from_environment())
print(ctypes.CDLL(built.library).answer())
"""


def entry_folder(root: Path) -> Path:
    (folder,) = (root / "entries").iterdir()
    return folder


@pytest.mark.parametrize("file", [LIBRARY, MANIFEST, "signatures.json"])
@pytest.mark.parametrize("damage", ["truncated", "zeroed", "garbage", "missing", "folder"])
def test_damaged_entries_are_made_again(cache_root: Path, file: str, damage: str) -> None:
    def make(folder: Path) -> None:
        for name in (LIBRARY, "signatures.json"):
            (folder / name).write_bytes(name.encode() * 100)

    cache = BuildCache(cache_root)
    entry, _ = cache.get(KEY, make)
    spoil(entry.folder / file, damage)
    assert cache.find(KEY) is None
    again, cached = cache.get(KEY, make)
    assert not cached
    assert (again.folder / LIBRARY).read_bytes() == LIBRARY.encode() * 100
    assert cache.get(KEY, make)[1]


@pytest.mark.parametrize("damage", ["truncated", "zeroed"])
def test_a_damaged_library_is_built_again_and_never_loaded(load: Loader, cache_root: Path, damage: str) -> None:
    load("// first\n" + ANSWER)
    spoil(entry_folder(cache_root) / LIBRARY, damage)
    finished = python(USE.format(path=str(cache_root.parent / "solution/kernels/x.cpp")), cwd=cache_root)
    assert finished.stdout.strip() == "42", finished.stderr


def spoil(target: Path, damage: str) -> None:
    data = target.read_bytes()
    target.unlink()  # not written over in place: a process that has it mapped would see that
    if damage == "folder":
        target.mkdir()
    elif damage != "missing":
        changed = {"truncated": data[: len(data) // 2], "zeroed": bytes(len(data)), "garbage": data[::-1] + b"\xff"}
        target.write_bytes(changed[damage])


def test_an_entry_that_is_a_file_is_replaced(load: Loader, cache_root: Path) -> None:
    load(ANSWER)
    folder = entry_folder(cache_root)
    os.rename(folder, cache_root / "away")
    folder.write_text("not a folder")
    assert load(ANSWER).answer() == 42
    assert folder.is_dir()


def test_four_processes_build_once(tmp_path: Path, cache_root: Path) -> None:
    source = tmp_path / "x.cpp"
    source.write_text("#include <algorithm>\n" + ANSWER)
    argv = [sys.executable, "-c", USE.format(path=str(source))]
    counter = tmp_path / "bin"
    counter.mkdir()
    counted = f'[ "$1" = --version ] || echo run >> {tmp_path}/runs'
    (counter / "g++").write_text(f'#!/bin/sh\n{counted}\nexec {shutil.which("g++")} "$@"\n')
    (counter / "g++").chmod(0o755)
    env = {**os.environ, "PATH": f"{counter}:{os.environ['PATH']}"}
    processes = [subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["42"] * 4
    assert (tmp_path / "runs").read_text().split() == ["run"]
    assert len(list((cache_root / "entries").iterdir())) == 1
    assert not list((cache_root / "tmp").iterdir())


def test_a_killed_build_leaves_nothing_in_the_way(load: Loader, tmp_path: Path, cache_root: Path) -> None:
    source = tmp_path / "x.cpp"
    source.write_text("#include <algorithm>\n" + ANSWER)
    process = subprocess.Popen([sys.executable, "-c", USE.format(path=str(source))], start_new_session=True)
    wait_for(lambda: any((cache_root / "tmp").glob("*/scratch")))
    process.kill()
    process.wait()
    finished = python(USE.format(path=str(source)), cwd=tmp_path)
    assert finished.stdout.strip() == "42", finished.stderr


def test_a_failed_build_publishes_nothing(cache_root: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        BuildCache(cache_root).get(KEY, fail)
    assert not list((cache_root / "entries").iterdir())
    assert not list((cache_root / "tmp").iterdir())


def mounted(options: str, place: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` where `place` is mounted as `options` say, in namespaces of its own."""
    script = f'mount {options} && exec "$0" -c "$1"'
    argv = ["unshare", "-rm", "sh", "-c", script, sys.executable, code]
    return subprocess.run(
        argv, cwd=place.parent, env={**os.environ, **env}, capture_output=True, text=True, timeout=120
    )


can_mount = subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
needs_mount = pytest.mark.skipif(not can_mount, reason="namespaces are not allowed here")


@needs_mount
def test_a_read_only_cache_is_read_and_not_missed(load: Loader, cache_root: Path) -> None:
    load(ANSWER)
    source = cache_root.parent / "solution/kernels/x.cpp"
    read_only = f"--bind {cache_root} {cache_root} && mount -o remount,bind,ro {cache_root}"
    found = mounted(read_only, cache_root, USE.format(path=str(source)))
    assert (found.stdout.strip(), found.stderr) == ("42", "")
    source.write_text(ANSWER + " // new")
    built = mounted(read_only, cache_root, USE.format(path=str(source)))
    assert built.stdout.strip() == "42", built.stderr
    assert built.stderr.count("cannot be written") == 1
    assert len(list((cache_root / "entries").iterdir())) == 1


@needs_mount
def test_a_full_cache_disk_is_replaced_and_a_full_machine_is_one_line(tmp_path: Path, cache_root: Path) -> None:
    cache_root.mkdir()
    source = tmp_path / "x.cpp"
    source.write_text(ANSWER)
    tiny = f"-t tmpfs -o size=8k tmpfs {cache_root}"
    elsewhere = mounted(tiny, cache_root, USE.format(path=str(source)))
    assert elsewhere.stdout.strip() == "42", elsewhere.stderr
    nowhere = mounted(tiny, cache_root, USE.format(path=str(source)), TMPDIR=str(cache_root))
    last = nowhere.stderr.splitlines()[-1]
    assert "KernelError: there is nowhere to build: neither" in last
    assert "No space left on device" in last
    assert "free some space, or set CUDA_AGENT_CACHE" in last


@pytest.mark.parametrize("place", ["file", "below_file", "nowhere"])
def test_an_impossible_cache_folder_is_replaced(
    load: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    (tmp_path / "file").write_text("")
    root = {"file": tmp_path / "file", "below_file": tmp_path / "file/cache", "nowhere": Path("/proc/nowhere")}[place]
    monkeypatch.setenv("CUDA_AGENT_CACHE", str(root))
    assert load(ANSWER).answer() == 42


def test_entries_can_be_listed_and_removed(load: Loader, cache_root: Path) -> None:
    load(ANSWER, "a.cpp")
    load(ANSWER + "//", "b.cpp")
    cache = BuildCache(cache_root)
    first, second = cache.entries()
    assert first.manifest["source"] == "kernels/a.cpp"
    assert first.bytes > 1000
    cache.remove(first)
    assert [entry.folder for entry in cache.entries()] == [second.folder]
    assert cache.clear() == 1
    assert cache.entries() == []


def test_what_killed_processes_left_is_removed_after_a_day(load: Loader, cache_root: Path) -> None:
    old, young = cache_root / "tmp/old", cache_root / "tmp/young"
    old.mkdir(parents=True)
    young.mkdir()
    yesterday = time.time() - 2 * 24 * 3600
    os.utime(old, (yesterday, yesterday))
    load(ANSWER)
    assert (old.exists(), young.exists()) == (False, True)


def test_the_fallback_serves_later_calls_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = BuildCache(tmp_path / "file")
    makes: list[Path] = []

    def make(folder: Path) -> None:
        makes.append(folder)
        (folder / "result").write_text("done")

    key = Key(os.urandom(32).hex(), lambda: "m" * 64)
    assert [cache.get(key, make)[1] for _ in range(3)] == [False, True, True]
    assert len(makes) == 1
    with pytest.raises(KernelError, match="cannot be read"):
        read_tree(tmp_path / "nope.cpp", tmp_path)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
