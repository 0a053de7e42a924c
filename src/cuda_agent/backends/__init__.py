"""From a kernel's source to something callable. Importing this lets `cuda_agent.runtime` read signatures by itself."""

from __future__ import annotations

from pathlib import Path

from cuda_agent.backends.base import Backend, Built, backend_for, backend_names, get_backend
from cuda_agent.backends.export import export
from cuda_agent.runtime import CUDA_SUFFIXES, BuildCache, Run, Signatures, SourceTree, set_signature_parser

__all__ = ["Backend", "BuildCache", "Built", "backend_for", "backend_names", "export", "get_backend"]


def _parse(tree: SourceTree, library: Path, run: Run) -> Signatures:
    # tree-sitter is loaded when it is needed
    if tree.main.endswith(CUDA_SUFFIXES):
        from cuda_agent.backends.cuda_signatures import parse_cuda_signatures

        return parse_cuda_signatures(tree, library, run)
    from cuda_agent.backends.signatures import parse_signatures

    return parse_signatures(tree, library, run)


set_signature_parser(_parse)
