"""C++ for the CPU: g++ without torch's headers, through the runtime's build code and with a caller's way to run it."""

from __future__ import annotations

import time
from pathlib import Path

from cuda_agent.backends.base import Built
from cuda_agent.backends.building import built_by, store_signatures
from cuda_agent.backends.signatures import parse_signatures
from cuda_agent.runtime import BuildCache, build
from cuda_agent.sandbox import Runner


class CppBackend:
    name = "cpp"
    suffixes: tuple[str, ...] = (".cpp", ".cc", ".cxx")

    def build(self, folder: Path, kernel: str, *, cache: BuildCache, runner: Runner) -> Built:
        """See `Backend.build`."""
        started = time.monotonic()
        tree, built, signatures = built_by(build, parse_signatures, folder, kernel, cache, runner)
        store_signatures(tree, signatures)
        return Built(built.library, signatures.as_data(), built.log, time.monotonic() - started, built.cached)
