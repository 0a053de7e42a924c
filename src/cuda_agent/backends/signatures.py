"""Finds what the `extern "C"` functions of a C++ source take and return.

The library's symbol table says which functions there are; tree-sitter reads how they are declared. Where the text as it
stands does not tell (macros, conditional code, types from headers), the preprocessor's output is read instead.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import tree_sitter
import tree_sitter_cpp
from tree_sitter import Node

from cuda_agent.backends.c_types import dtype_of
from cuda_agent.backends.symbols import defined_functions
from cuda_agent.runtime import Function, Parameter, Run, Signatures, SourceTree
from cuda_agent.runtime.compiler import preprocess
from cuda_agent.runtime.errors import KernelBuildError
from cuda_agent.runtime.signatures import SCALARS

_MARKER = re.compile(rb'^# (\d+) "((?:[^"\\]|\\.)*)"')
_DECLARATORS = ("pointer_declarator", "abstract_pointer_declarator", "array_declarator", "abstract_array_declarator")
_REFERENCES = ("reference_declarator", "abstract_reference_declarator")
_FUNCTIONS = ("function_declarator", "abstract_function_declarator")
_DECLARED = (*_DECLARATORS, *_REFERENCES, *_FUNCTIONS, "parenthesized_declarator", "abstract_parenthesized_declarator")


STREAM = "cudaStream_t"


class Refused(Exception):
    """A function that cannot be called from Python; the message says why."""


class Found:
    """What a text declares: function nodes by name, those in `extern "C"` apart, and its type names."""

    def __init__(self, text: bytes, parser: tree_sitter.Parser | None = None) -> None:
        self.c: dict[str, list[Node]] = defaultdict(list)
        self.other: dict[str, list[Node]] = defaultdict(list)
        self.typedefs: dict[str, str | None] = {}
        self._tree = (parser or _parser()).parse(text)
        self.root = self._tree.root_node
        waiting = [(self.root, False)]
        while waiting:
            node, in_c = waiting.pop()
            waiting += self._visit(node, in_c)

    def _visit(self, node: Node, in_c: bool) -> list[tuple[Node, bool]]:
        """Records what `node` declares directly; returns the blocks to go on with and whether they are `extern "C"`."""
        inside: list[tuple[Node, bool]] = []
        for child in node.named_children:
            if child.type == "linkage_specification":
                value, body = child.child_by_field_name("value"), child.child_by_field_name("body")
                inner = value is not None and _text(value) == '"C"'
                if body is not None and body.type in ("function_definition", "declaration"):
                    self._function(body, inner)
                elif body is not None:
                    inside.append((body, inner))
            elif child.type in ("function_definition", "declaration"):
                self._function(child, in_c)
            elif child.type == "type_definition":
                self._typedef(child)
            elif child.type == "alias_declaration":
                self._alias(child)
            elif child.type == "preproc_def":
                self._macro(child)
            elif child.type.startswith("preproc_") or child.type in (
                "namespace_definition",
                "declaration_list",
                "ERROR",
            ):
                inside.append((child, in_c))
        return inside[::-1]

    def _function(self, node: Node, in_c: bool) -> None:
        name = name_of(node)
        if name:
            (self.c if in_c else self.other)[name].append(node)

    def _typedef(self, node: Node) -> None:
        target = node.child_by_field_name("type")
        for declarator in node.children_by_field_name("declarator"):
            if target is not None and declarator.type in ("type_identifier", "primitive_type"):
                self.typedefs[_text(declarator)] = _named_type(target)

    def _alias(self, node: Node) -> None:
        name, descriptor = node.child_by_field_name("name"), node.child_by_field_name("type")
        target = None if descriptor is None else descriptor.child_by_field_name("type")
        if name is not None and descriptor is not None and target is not None:
            plain = descriptor.child_by_field_name("declarator") is None
            self.typedefs[_text(name)] = _named_type(target) if plain else "?"

    def _macro(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None:
            self.typedefs.setdefault(_text(name), _text(value).strip())

    def function(self, name: str) -> Function:
        """The function that the library exports as `name`. Raises Refused."""
        nodes = self.c.get(name) or self.other.get(name) or []
        nodes = [node for node in nodes if node.type == "function_definition"] or nodes
        return self.read(name, nodes)

    def read(self, name: str, nodes: list[Node]) -> Function:
        """The function that all of `nodes` declare alike. Raises Refused."""
        if not nodes:
            raise Refused("its declaration was not found in the source")
        functions = [_function(name, node, self.typedefs) for node in nodes]
        if len({(f.returns, tuple(p.type for p in f.parameters)) for f in functions}) > 1:
            raise Refused("it is declared in more than one way")
        return functions[0]


def parse_signatures(tree: SourceTree, library: Path, run: Run) -> Signatures:
    """A `cuda_agent.runtime.Parser`. Raises KernelBuildError if the library cannot be read."""
    try:
        exported = {name for name in defined_functions(library) if not name.startswith(("_Z", "_init", "_fini"))}
    except ValueError as error:
        raise KernelBuildError(f"{tree.main}: {error}") from None
    found = Found(tree.text)
    functions, unsupported = _read(found, exported)
    if unsupported:
        expanded = preprocess(tree, run)
        if expanded is not None:
            found = Found(own_text(expanded))
            more, unsupported = _read(found, set(unsupported))
            functions += more
    for name, nodes in (found.other | found.c).items():
        if name not in exported and name not in unsupported:
            unsupported[name] = why_not_exported(nodes, name in found.c)
    ordered = sorted(functions, key=lambda function: _position(tree.text, function.name))
    return Signatures(tree.digest, tuple(ordered), dict(sorted(unsupported.items())))


def own_text(expanded: bytes) -> bytes:
    """The lines of a preprocessor's output that stem from the solution's own files."""
    kept: list[bytes] = []
    own = False
    for line in expanded.splitlines():
        marker = _MARKER.match(line)
        if marker:
            file = os.fsdecode(marker[2])
            own = not file.startswith(("/", "<"))
        elif own:
            kept.append(line)
    return b"\n".join(kept)


def _read(found: Found, exported: set[str]) -> tuple[list[Function], dict[str, str]]:
    functions: list[Function] = []
    refused: dict[str, str] = {}
    for name in sorted(exported):
        try:
            functions.append(found.function(name))
        except Refused as reason:
            refused[name] = str(reason)
    return functions, refused


def _function(name: str, node: Node, typedefs: dict[str, str | None]) -> Function:
    declarator = _function_declarator(node)
    parameters = None if declarator is None else declarator.child_by_field_name("parameters")
    if declarator is None or parameters is None or declarator.has_error or _has_own_error(node):
        raise Refused("its declaration was not understood")
    listed = [child for child in parameters.named_children if child.type != "comment"]
    if len(listed) == 1 and _text(listed[0]) == "void":
        listed = []
    if "..." in [_text(child) for child in parameters.children]:
        raise Refused("it takes a variable number of arguments")
    returns = _returned(node, declarator, typedefs)
    return Function(name, returns, tuple(_parameter(i, p, typedefs) for i, p in enumerate(listed)))


def _returned(node: Node, function: Node, typedefs: dict[str, str | None]) -> str:
    trailing = [child for child in function.named_children if child.type == "trailing_return_type"]
    holder = trailing[0].named_children[0] if trailing else node
    spelled = holder.child_by_field_name("type")
    if node.child_by_field_name("declarator") != function:
        raise Refused("it returns a pointer or a reference; functions return numbers or nothing")
    if trailing and holder.child_by_field_name("declarator") is not None:
        raise Refused("it returns a pointer or a reference; functions return numbers or nothing")
    text = "" if spelled is None else _named_type(spelled) or _text(spelled)
    if text == "void":
        return "void"
    dtype = dtype_of(text, typedefs)
    if dtype not in SCALARS:
        raise Refused(f"it returns {text}; functions return numbers or nothing")
    return dtype


def _parameter(index: int, node: Node, typedefs: dict[str, str | None]) -> Parameter:
    spelled, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    text = " ".join(re.sub(rb"//[^\n]*|/\*.*?\*/", b" ", node.text or b"", flags=re.DOTALL).decode().split())
    where = f"parameter {index + 1} ({text})"
    if spelled is None or node.type not in ("parameter_declaration", "optional_parameter_declaration"):
        raise Refused(f"{where} was not understood")
    kinds, name = _declared(declarator)
    if any(kind in _REFERENCES for kind in kinds):
        raise Refused(f"{where} is a reference; take a pointer or a number")
    if any(kind in _FUNCTIONS for kind in kinds):
        raise Refused(f"{where} is a function pointer")
    if len(kinds) > 1:
        raise Refused(f"{where} is a pointer to a pointer or to an array; take a pointer to numbers")
    base = _named_type(spelled) or _text(spelled)
    if base == STREAM and not kinds:
        return Parameter(name, base, "stream", "any")
    dtype = dtype_of(base, typedefs)
    known = dtype is not None and (bool(kinds) or dtype in SCALARS)
    if not known or dtype is None:
        takes = "a pointer to numbers" if kinds else "an integer, float, double or bool, or a pointer to numbers"
        raise Refused(f"{where} has the type {base}, which Python cannot pass; take {takes}")
    const = any(child.type == "type_qualifier" and _text(child) == "const" for child in node.children)
    shown = f"{'const ' if const and kinds else ''}{base}{'*' if kinds else ''}"
    return Parameter(name, shown, "pointer" if kinds else "scalar", dtype, const and bool(kinds))


def _declared(node: Node | None) -> tuple[list[str], str]:
    """The declarators around a parameter's name (pointer, array, reference, function), and the name."""
    kinds: list[str] = []
    while node is not None and node.type in _DECLARED:
        if "parenthesized" not in node.type:
            kinds.append(node.type)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type == "identifier" or c.type in _DECLARED), None)
        node = inner
    return kinds, _text(node) if node is not None and node.type == "identifier" else ""


def name_of(node: Node) -> str:
    """The name of the function that `node` declares; empty where it declares none by a plain name."""
    declarator = _function_declarator(node)
    name = None if declarator is None else declarator.child_by_field_name("declarator")
    return _text(name) if name is not None and name.type == "identifier" else ""


def _function_declarator(node: Node) -> Node | None:
    """The function declarator of a declaration, through pointers and references to what it returns."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type in (*_DECLARATORS, *_REFERENCES):
        inner = declarator.child_by_field_name("declarator")
        declarator = inner or next(iter(declarator.named_children[-1:]), None)
    return declarator if declarator is not None and declarator.type == "function_declarator" else None


def _has_own_error(node: Node) -> bool:
    return any(child.type == "ERROR" or child.is_missing for child in node.children)


def _named_type(node: Node) -> str | None:
    """The spelling of a type; None for a struct, class, union or enum."""
    if node.type in ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier"):
        return None
    return " ".join(_text(node).split())


def why_not_exported(nodes: list[Node], in_c: bool) -> str:
    storage = {_text(c) for node in nodes for c in node.children if c.type == "storage_class_specifier"}
    if "static" in storage:
        return "it is static"
    if all(node.type != "function_definition" for node in nodes):
        return "it is declared but not defined in this source"
    return "it is inline or not compiled" if in_c else 'it is not declared extern "C"'


def _position(text: bytes, name: str) -> int:
    match = re.search(rb"\b" + re.escape(name.encode()) + rb"\s*\(", text)
    return match.start() if match else len(text)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))
