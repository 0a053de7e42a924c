"""What the compiled backends share: building by the runtime, its errors as ours, signatures beside the sources."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda_agent import runtime
from cuda_agent.errors import BuildError, MachineError, SolutionError
from cuda_agent.runtime import (
    BuildCache,
    CompilerMissing,
    KernelBuildError,
    KernelError,
    Parser,
    Signatures,
    SourceTree,
    beside,
    read_tree,
)
from cuda_agent.sandbox import Runner

log = logging.getLogger(__name__)


def built_by(
    make: Callable[..., runtime.Built], parser: Parser, folder: Path, kernel: str, cache: BuildCache, runner: Runner
) -> tuple[SourceTree, runtime.Built, Signatures]:
    """Builds `folder/kernel` with `make` of the runtime. Raises BuildError, SolutionError, MachineError."""
    if not (folder / kernel).is_file():
        raise SolutionError(f"there is no kernel source {kernel}")
    arguments: dict[str, Any] = {"cache": cache, "run": runner, "parser": parser}
    try:
        tree = read_tree(folder / kernel, folder)
        built = make(tree, **arguments)
        return tree, built, built.signatures or parser(tree, built.library, runner)
    except CompilerMissing as error:
        raise MachineError(str(error)) from None
    except KernelBuildError as error:
        raise BuildError(str(error)) from error
    except KernelError as error:
        raise MachineError(str(error)) from error


def store_signatures(tree: SourceTree, signatures: Signatures) -> None:
    """Writes the signatures beside the source in one step; where that is not allowed, the cache has them too."""
    target = beside(tree.root / tree.main)
    try:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
            file.write(signatures.to_json())
        os.chmod(file.name, 0o644)
        os.replace(file.name, target)
    except OSError as error:
        log.debug("the signatures of %s are not stored beside it: %s", tree.main, error)
