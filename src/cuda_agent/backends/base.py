"""What a backend is, and how one is found: by its name or by a source's suffix, among the installed entry points.

A new backend is one file and one line under `[project.entry-points."cuda_agent.backends"]`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePath
from typing import Any, Protocol

from cuda_agent.errors import SolutionError, UsageError
from cuda_agent.runtime import BuildCache
from cuda_agent.sandbox import Runner

GROUP = "cuda_agent.backends"


@dataclass(frozen=True)
class Built:
    """A built kernel; `log` is all that the compiler said when it ran, `seconds` how long this call took.

    `library` is None where nothing can be compiled before the first call. `resources`: what each function takes of the
    device, where the compiler tells."""

    library: Path | None
    signatures: dict[str, Any]
    log: str
    seconds: float
    cached: bool
    resources: dict[str, dict[str, int]] = field(default_factory=dict)


class Backend(Protocol):
    """Builds the sources that end in one of `suffixes`."""

    name: str
    suffixes: tuple[str, ...]

    def build(self, folder: Path, kernel: str, *, cache: BuildCache, runner: Runner) -> Built:
        """Builds `folder/kernel` and stores its signatures beside it.

        Raises BuildError with what the kernel's writer needs to see, SolutionError where there is no such file, and
        MachineError where a compiler or disk space is missing.
        """
        ...


def backend_names() -> list[str]:
    return sorted(_installed())


@cache
def get_backend(name: str) -> Backend:
    """The backend called `name`. Raises UsageError that lists the right names."""
    installed = _installed()
    if name not in installed:
        known = ", ".join(sorted(installed)) or "none; is the package installed (pip install -e .)?"
        raise UsageError(f"no backend {name!r}; there are: {known}")
    backend: Backend = installed[name].load()()
    return backend


def backend_for(kernel: str) -> Backend:
    """The backend that builds `kernel`, by its suffix. Raises SolutionError that lists the right suffixes."""
    suffix = PurePath(kernel).suffix
    backends = [get_backend(name) for name in backend_names()]
    for backend in backends:
        if suffix in backend.suffixes:
            return backend
    known = ", ".join(suffix for backend in backends for suffix in backend.suffixes)
    raise SolutionError(f"no backend builds {kernel}; sources end in: {known}")


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
