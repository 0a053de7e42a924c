"""Finds what the functions of a CUDA source take: `__global__` ones to launch, `extern "C"` host ones to call.

The cubin's symbol table says which kernels there are, the library's which host functions; tree-sitter reads how they
are declared. A kernel needs no `extern "C"`: its mangled name is found by its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import tree_sitter
import tree_sitter_cuda
from tree_sitter import Node

from cuda_agent.backends.signatures import Found, Refused, name_of, why_not_exported
from cuda_agent.backends.symbols import defined_functions, kernels_of
from cuda_agent.runtime import Function, KernelBuildError, Run, Signatures, SourceTree
from cuda_agent.runtime.compiler import LIBRARY
from cuda_agent.runtime.cuda_build import CUBIN

_LENGTH = re.compile(r"\d+")


def parse_cuda_signatures(tree: SourceTree, built: Path, run: Run) -> Signatures:
    """A `cuda_agent.runtime.Parser` for `.cu`. Raises KernelBuildError if what was built cannot be read."""
    found = Found(_text(tree), _parser())
    try:
        kernels = kernels_of(built.with_name(CUBIN)) if built.with_name(CUBIN).is_file() else frozenset()
        host = defined_functions(built) if built.name == LIBRARY else frozenset()
    except ValueError as error:
        raise KernelBuildError(f"{tree.main}: {error}") from None
    functions: list[Function] = []
    unsupported: dict[str, str] = {}
    for name, nodes in _by_name(found).items():
        globals_ = [node for node in nodes if _is_global(node)]
        try:
            if globals_:
                symbol = _symbol(name, kernels)
                functions.append(replace(found.read(name, _defined(globals_)), launch=True, symbol=symbol))
            elif name in found.c and name in host:
                functions.append(found.function(name))
            elif not any(_is_device(node) for node in nodes):
                unsupported[name] = why_not_exported(nodes, name in found.c)
        except Refused as reason:
            unsupported[name] = str(reason)
    for name in _templates(found.root):
        unsupported.setdefault(name, 'it is a template; launch it from an extern "C" __global__ function')
    for function in functions:
        if function.launch and function.returns != "void":
            raise KernelBuildError(f"{tree.main}: {function.name}: a __global__ function returns void")
    return Signatures(tree.digest, tuple(functions), dict(sorted(unsupported.items())))


def _templates(root: Node) -> list[str]:
    """Names of `__global__` templates."""
    found: list[str] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "template_declaration":
            for child in node.named_children:
                if child.type in ("function_definition", "declaration") and _is_global(child):
                    name = name_of(child)
                    found += [name] if name else []
        elif node.type in ("translation_unit", "namespace_definition", "declaration_list") or "preproc" in node.type:
            waiting += node.named_children
    return found


def _text(tree: SourceTree) -> bytes:
    """The main file and after it what it includes, so that kernels in headers are found too."""
    return b"\n".join([tree.text, *(data for name, data in sorted(tree.files.items()) if name != tree.main)])


def _by_name(found: Found) -> dict[str, list[Node]]:
    names: dict[str, list[Node]] = defaultdict(list)
    for table in (found.c, found.other):
        for name, nodes in table.items():
            names[name] += nodes
    return names


def _defined(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if node.type == "function_definition"] or nodes


def _symbol(name: str, kernels: Iterable[str]) -> str:
    """The kernel's name in the cubin. Raises Refused."""
    matching = sorted(symbol for symbol in kernels if plain_name(symbol) == name)
    if not matching:
        raise Refused("it is not in the built code: static or never compiled")
    if len(matching) > 1:
        raise Refused("there are several of that name; give each a name of its own")
    return matching[0]


def plain_name(symbol: str) -> str:
    """A function's own name, without namespaces, of a symbol that may be mangled (`_ZN2ns4nameEPf`)."""
    if not symbol.startswith("_Z"):
        return symbol
    at, name = 3 if symbol.startswith("_ZN") else 2, ""
    while length := _LENGTH.match(symbol, at):
        at = length.end() + int(length[0])
        name = symbol[length.end() : at]
        if not symbol.startswith("_ZN"):
            break
    return name


def _is_global(node: Node) -> bool:
    return any(child.type == "__global__" for child in node.children)


def _is_device(node: Node) -> bool:
    return any(child.type in ("__device__", "__host__") for child in node.children)


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
