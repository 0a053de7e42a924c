"""`load_kernels`: from a source beside the calling file to its functions."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda_agent.runtime.cache import BuildCache
from cuda_agent.runtime.compiler import LIBRARY, Parser, build, run_program
from cuda_agent.runtime.cuda_build import CUBIN, CUDA_SUFFIXES, build_cuda
from cuda_agent.runtime.errors import KernelError
from cuda_agent.runtime.signatures import Function, Signatures, read_beside
from cuda_agent.runtime.sourcetree import SourceTree, read_tree
from cuda_agent.runtime.triton_kernels import TRITON_SUFFIXES, TritonKernels, load_triton

CPP_SUFFIXES = (".cpp", ".cc", ".cxx")
ENTRY = "model_new.py"

_parser: Parser | None = None


def set_signature_parser(parser: Parser | None) -> None:
    """Installs what finds signatures in sources that have none stored; importing `cuda_agent.backends` does so."""
    global _parser
    _parser = parser


class Kernels:
    """The functions of one source as attributes: `extern "C"` ones to call, `__global__` ones to launch."""

    def __init__(self, path: str, built: Path, signatures: Signatures) -> None:
        self._path = path
        self._signatures = signatures
        cuda = Path(path).suffix in CUDA_SUFFIXES
        self._library = _opened(built, path) if built.name == LIBRARY else None
        cubin = None
        if cuda:
            from cuda_agent.runtime.cuda_launch import Cubin

            cubin = Cubin(built.with_name(CUBIN), path)
        for function in signatures.functions:
            setattr(self, function.name, self._bound(function, cubin, "cuda" if cuda else "cpu"))

    def _bound(self, function: Function, cubin: Any, device: str) -> Any:
        from cuda_agent.runtime.calls import bind

        if function.launch:
            from cuda_agent.runtime.cuda_launch import Launcher

            return Launcher(cubin, function)
        try:
            call = bind(getattr(self._library, function.name), function, device)
        except AttributeError:
            raise KernelError(f"{self._path}: the library has no function {function.name}") from None
        return _checked(call, self._library, self._path) if device == "cuda" else call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        reason = self._signatures.unsupported.get(name)
        if reason is not None:
            raise AttributeError(f"{self._path}: {name} cannot be called from Python: {reason}")
        offered = ", ".join(function.name for function in self._signatures.functions) or "none"
        hint = 'functions are those declared extern "C"' + (
            " or __global__" if self._path.endswith(CUDA_SUFFIXES) else ""
        )
        raise AttributeError(f"{self._path} has no function {name!r}; it has: {offered} ({hint})")

    def __dir__(self) -> list[str]:
        return [function.name for function in self._signatures.functions]

    def __repr__(self) -> str:
        return f"<kernels of {self._path}: {', '.join(map(str, self._signatures.functions))}>"


def load_kernels(path: str | os.PathLike[str]) -> Kernels | TritonKernels:
    """The functions of a kernel source, which is built unless the cache has it; `path` is relative to the calling file.
    A Python file is imported: its Triton functions are compiled when they are first launched.

    Raises KernelBuildError with the compiler's first errors, or KernelError.
    """
    import torch  # noqa: F401  first, so that kernels share the OpenMP runtime that torch brings along

    folder = _folder_of(sys._getframe(1).f_globals.get("__file__"))
    source = Path(os.path.abspath(folder / path))
    if source.suffix not in CPP_SUFFIXES + CUDA_SUFFIXES + TRITON_SUFFIXES:
        known = f"C++ ({', '.join(CPP_SUFFIXES)}), CUDA ({', '.join(CUDA_SUFFIXES)}) or Triton (.py)"
        raise KernelError(f"{source.name}: kernels are sources in {known}")
    if not source.is_file():
        raise KernelError(f"no kernel source {source} (the path {str(path)!r} is relative to {folder})")
    if source.suffix in TRITON_SUFFIXES:
        return load_triton(source, source.relative_to(root_of(source, folder)).as_posix())
    tree = read_tree(source, root_of(source, folder))
    stored = read_beside(source, tree.digest)
    parser = _parser if stored is not None else _required_parser(tree)
    make = build_cuda if source.suffix in CUDA_SUFFIXES else build
    built = make(tree, cache=BuildCache.from_environment(), parser=parser)
    signatures = stored or built.signatures or _required_parser(tree)(tree, built.library, run_program)
    return Kernels(tree.main, built.library, signatures)


def root_of(source: Path, folder: Path) -> Path:
    """The solution's folder: the nearest above `source` with a model_new.py, else the caller's, else the source's."""
    for parent in list(source.parents)[:4]:
        if (parent / ENTRY).is_file():
            return parent
    return folder if folder in source.parents else source.parent


def _folder_of(file: str | None) -> Path:
    return Path(os.path.abspath(file)).parent if file and os.path.exists(file) else Path.cwd()


def _required_parser(tree: SourceTree) -> Parser:
    """The installed parser. In an exported solution this package is alone and has none; there signatures are stored."""
    if _parser is None and importlib.util.find_spec("cuda_agent.backends") is not None:
        importlib.import_module("cuda_agent.backends")
    if _parser is None:
        where = f"{tree.root / tree.main}.sig.json"
        raise KernelError(f"{where} is missing or older than its source; run: cuda-agent build {tree.root}")
    return _parser


def _checked(call: Callable[..., Any], library: Any, path: str) -> Callable[..., Any]:
    """`call`, after which a launch that failed inside it is an error."""
    last_error = library.cuda_agent_last_error
    last_error.argtypes, last_error.restype = [], ctypes.c_char_p

    def checked(*args: Any) -> Any:
        result = call(*args)
        error = last_error()
        if error:
            raise KernelError(f"{path}: {call.__name__}() left a CUDA error: {error.decode()}")
        return result

    checked.__name__ = checked.__qualname__ = call.__name__
    checked.__doc__ = call.__doc__
    return checked


def _opened(library: Path, path: str) -> Any:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        hint = "if its folder is mounted noexec, set CUDA_AGENT_CACHE to another one"
        raise KernelError(f"{path}: the built library cannot be loaded: {error} ({hint})") from None
