"""The errors a caller may meet. Each message says what was wrong, where, and what to do.

CudaAgentError
├── UsageError      the caller's input cannot be used (missing file, bad option)
│   ├── TaskError       … because of the task
│   └── SolutionError   … because of the solution
├── BuildError      a kernel source does not build; carries the compiler's messages
└── MachineError    this machine lacks something (compiler, sandbox, memory, disk)
"""

from __future__ import annotations


class CudaAgentError(Exception):
    """Base of every error that this package raises on purpose."""


class UsageError(CudaAgentError):
    """The caller's input cannot be used."""


class TaskError(UsageError):
    """The task cannot be read or is no task."""


class SolutionError(UsageError):
    """The solution cannot be read or is no solution."""


class BuildError(CudaAgentError):
    """A kernel source does not build. `str(error)` is what its writer needs to see."""


class MachineError(CudaAgentError):
    """This machine lacks something that the work needs."""
