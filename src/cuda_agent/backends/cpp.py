"""C++ for the CPU: g++ without torch's headers, through the runtime's build code and with a caller's way to run it."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from pathlib import Path

from cuda_agent.backends.base import Built
from cuda_agent.backends.signatures import parse_signatures
from cuda_agent.errors import BuildError, MachineError, SolutionError
from cuda_agent.runtime import (
    BuildCache,
    CompilerMissing,
    KernelBuildError,
    KernelError,
    Signatures,
    SourceTree,
    beside,
    build,
    read_tree,
)
from cuda_agent.sandbox import Runner

log = logging.getLogger(__name__)


class CppBackend:
    name = "cpp"
    suffixes: tuple[str, ...] = (".cpp", ".cc", ".cxx")

    def build(self, folder: Path, kernel: str, *, cache: BuildCache, runner: Runner) -> Built:
        """See `Backend.build`."""
        started = time.monotonic()
        if not (folder / kernel).is_file():
            raise SolutionError(f"there is no kernel source {kernel}")
        try:
            tree = read_tree(folder / kernel, folder)
            built = build(tree, cache=cache, run=runner, parser=parse_signatures)
            signatures = built.signatures or parse_signatures(tree, built.library, runner)
        except CompilerMissing as error:
            raise MachineError(str(error)) from None
        except KernelBuildError as error:
            raise BuildError(str(error)) from error
        except KernelError as error:
            raise MachineError(str(error)) from error
        _store(tree, signatures)
        data = json.loads(signatures.to_json())
        return Built(built.library, data, built.log, time.monotonic() - started, built.cached)


def _store(tree: SourceTree, signatures: Signatures) -> None:
    """Writes the signatures beside the source in one step; where that is not allowed, the cache has them too."""
    target = beside(tree.root / tree.main)
    try:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
            file.write(signatures.to_json())
        os.chmod(file.name, 0o644)
        os.replace(file.name, target)
    except OSError as error:
        log.debug("the signatures of %s are not stored beside it: %s", tree.main, error)
