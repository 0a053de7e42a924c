"""What can go wrong between a kernel's source and its call."""

from __future__ import annotations


class KernelError(RuntimeError):
    """A kernel cannot be built or loaded. The message says what was wrong, where, and what to do."""


class KernelBuildError(KernelError):
    """The compiler refused the source. `str(error)` is what its writer needs, `log` is everything it said."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class CompilerMissing(KernelBuildError):
    """There is no usable compiler on this machine."""
