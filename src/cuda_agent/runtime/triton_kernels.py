"""`load_kernels` for Triton: a Python file whose functions under `@triton.jit` are launched as `k.name[grid](...)`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from cuda_agent.runtime import triton_driver
from cuda_agent.runtime.errors import CompilerMissing, KernelBuildError, KernelError

TRITON_SUFFIXES = (".py",)
NOT_INSTALLED = "Triton is not installed here; run: pip install 'cuda-agent[triton]' (or pip install triton)"


class TritonKernels:
    """What one Python file defines, as attributes."""

    def __init__(self, path: str, module: ModuleType) -> None:
        self._path, self._module = path, module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(self._module, name)
        except AttributeError:
            known = ", ".join(dir(self)) or "none"
            raise AttributeError(f"{self._path} defines no {name!r}; its Triton functions are: {known}") from None

    def __dir__(self) -> list[str]:
        return [name for name, value in vars(self._module).items() if _launched(value, self._module)]

    def __repr__(self) -> str:
        return f"<Triton functions of {self._path}: {', '.join(dir(self))}>"


def load_triton(source: Path, shown: str) -> TritonKernels:
    """The functions of `source`. It is imported once for each content, as a module of a package of its own, so that
    imports relative to its folder work and other solutions' files of the same name are others.

    Raises KernelBuildError with the place that failed, KernelError where Triton cannot run here.
    """
    if importlib.util.find_spec("triton") is None:
        raise CompilerMissing(f"{shown} needs Triton. {NOT_INSTALLED}")
    _need_device(shown)
    if not source.stem.isidentifier():
        raise KernelError(f"{shown}: a Triton file is imported, so its name has to be an identifier and .py")
    try:
        return TritonKernels(shown, importlib.import_module(f"{_package(source.parent)}.{source.stem}"))
    except Exception as error:
        raise KernelBuildError(_worded(error, source, shown)) from error


def _need_device(shown: str) -> None:
    """Without a GPU Triton interprets; what it says by itself of a missing one nobody understands."""
    import torch

    if triton_driver.interprets():
        if not torch.cuda.is_available():
            triton_driver.stand_in()
    elif not torch.cuda.is_available() and not triton_driver.stands_in():
        hint = "start Python with TRITON_INTERPRET=1 to let Triton interpret it, which is right but very slow"
        raise KernelError(f"{shown}: there is no GPU for Triton; {hint}")


def _package(folder: Path) -> str:
    """The package that stands for `folder` as it is now; made when it is new."""
    digest = hashlib.sha256(str(folder).encode())
    for file in sorted(folder.glob("*.py")):
        digest.update(b"\0" + file.name.encode() + b"\0" + file.read_bytes())
    name = f"cuda_agent_kernels_{digest.hexdigest()[:12]}"
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package
    return name


def _launched(value: Any, module: ModuleType) -> bool:
    from triton.runtime.jit import KernelInterface

    return isinstance(value, KernelInterface) and getattr(_function(value), "__module__", None) == module.__name__


def _function(value: Any) -> Any:
    """The Python function below autotuning, heuristics and `jit`."""
    while hasattr(value, "fn"):
        value = value.fn
    return value


def _worded(error: Exception, source: Path, shown: str) -> str:
    if isinstance(error, SyntaxError):
        place = Path(error.filename).name if error.filename else source.name
        return f"{Path(shown).with_name(place)}:{error.lineno}:{error.offset}: {error.msg}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(source)]
    place = f"{shown}:{lines[-1]}" if lines else shown
    return f"{place}: {type(error).__name__}: {error}"
