"""Triton: Python files with functions under `@triton.jit`. What they compile to depends on the arguments of a call, so
that nothing is compiled here; see `judge/ahead.py` for what is compiled before a solution is judged."""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cuda_agent.backends.base import Built
from cuda_agent.errors import BuildError, MachineError, SolutionError
from cuda_agent.runtime import NOT_INSTALLED, TRITON_SUFFIXES, BuildCache
from cuda_agent.sandbox import Runner
from cuda_agent.sources import parsed, read_text

IMPORT_TIMEOUT_S = 60.0
_IMPORT = """
import importlib, sys, traceback
sys.path.insert(0, {root!r})
sys.path.append({package!r})
try:
    importlib.import_module({module!r})
except BaseException as error:
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith({root!r})]
    place = f"{{own[-1].filename[len({root!r}) + 1:]}}:{{own[-1].lineno}}: " if own else ""
    sys.exit(f"{{place}}{{type(error).__name__}}: {{error}}")
"""


class TritonBackend:
    name = "triton"
    suffixes: tuple[str, ...] = TRITON_SUFFIXES

    def build(self, folder: Path, kernel: str, *, cache: BuildCache, runner: Runner) -> Built:
        """See `Backend.build`. Reads the file without running it; its functions take the place of signatures."""
        started = time.monotonic()
        require()
        if not (folder / kernel).is_file():
            raise SolutionError(f"there is no kernel source {kernel}")
        try:
            tree = parsed(read_text(folder / kernel))
        except SyntaxError as error:
            raise BuildError(f"{kernel}:{error.lineno}:{error.offset}: {error.msg}") from None
        except ValueError as error:
            raise BuildError(f"{kernel}: {error}") from None
        functions = [_described(function) for function in jit_functions(tree)]
        return Built(None, {"functions": functions}, "", time.monotonic() - started, cached=True)


def require(device: str = "cpu") -> None:
    """Raises MachineError where Triton, or on a GPU what it builds its launchers with, is missing."""
    if importlib.util.find_spec("triton") is None:
        raise MachineError(NOT_INSTALLED)
    if not device.startswith("cuda"):
        return
    if not any(shutil.which(name) for name in (os.environ.get("CC", "gcc"), "gcc", "clang")):
        raise MachineError("Triton needs a C compiler to launch kernels: install gcc (Debian, Ubuntu: apt install gcc)")
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise MachineError(f"Triton needs Python.h to launch kernels (Debian, Ubuntu: apt install python{version}-dev)")


def import_once(folder: Path, kernel: str, runner: Runner) -> None:
    """Imports `folder/kernel` in the runner's sandbox. Raises BuildError with what it raised and where."""
    root = str(folder.resolve())
    module = kernel.removesuffix(".py").replace("/", ".")
    package = str(Path(__file__).resolve().parents[2])
    program = _IMPORT.format(root=root, module=module, package=package)
    interpreted = {"TRITON_INTERPRET": "1"}  # the sandbox has no GPU
    done = runner([sys.executable, "-c", program], cwd=folder, timeout_s=IMPORT_TIMEOUT_S, env=interpreted)
    if done.timed_out:
        raise BuildError(f"{kernel}: importing it takes longer than {IMPORT_TIMEOUT_S:.0f} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BuildError(lines[-1] if lines[-1].startswith("kernels/") else f"{kernel}: {lines[-1]}")


def jit_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions of a module's top level that `triton.jit` (or gluon's) decorates, alone or among others."""
    imported = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("triton")]
    names = {alias.asname or alias.name for node in imported for alias in node.names if alias.name == "jit"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(_is_jit(d, names) for d in node.decorator_list):
            yield node


def _is_jit(decorator: ast.expr, names: set[str]) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(called, ast.Attribute):
        return called.attr == "jit"
    return isinstance(called, ast.Name) and called.id in names


def _described(function: ast.FunctionDef) -> dict[str, Any]:
    arguments = [*function.args.posonlyargs, *function.args.args]
    listed = [{"name": a.arg, "kind": "constexpr" if _is_constexpr(a.annotation) else "argument"} for a in arguments]
    return {"name": function.name, "parameters": listed}


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'\"").endswith("constexpr")
