"""What tasks and solutions share: reading text files, local imports, and a hash that ignores layout and comments."""

from __future__ import annotations

import ast
import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path

MAX_FILE_BYTES = 4 << 20


def read_text(path: Path) -> str:
    """The UTF-8 text of `path`, with or without a byte order mark. Raises OSError, or ValueError if it is no regular
    file, no text or larger than 4 MiB."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{path} is no regular file")
    if found.st_size > MAX_FILE_BYTES:
        size = f"{found.st_size} bytes, more than the {MAX_FILE_BYTES} that a source file may have"
        raise ValueError(f"{path} has {size}")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from None


def parsed(source: str) -> ast.Module:
    """Raises SyntaxError, or ValueError where it holds null bytes or is nested too deeply for Python."""
    try:
        return ast.parse(source)
    except (RecursionError, MemoryError):
        raise ValueError("its expressions are nested too deeply for Python") from None


def imports(source: str, package: str) -> bool:
    """Whether a line of it, at whatever depth, imports `package` or a part of it; False where it is no Python."""
    if package not in source:
        return False
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return False
    return any(name.partition(".")[0] == package for name in _imported_modules(tree, ("",)))


def text_of(name: str) -> str:
    """A file's name as text: bytes of it that are none become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8")


def normalised(source: str) -> str:
    """Python source without comments, docstrings (unless it reads them) and layout; the text itself where it cannot be
    parsed and written again."""
    try:
        tree = parsed(source)
        return ast.unparse(tree if "__doc__" in source else _without_docstrings(tree))
    except (SyntaxError, ValueError, RecursionError):
        return source


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and _is_text(body[0]):
                node.body = body[1:] or [ast.Pass()]
    return tree


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def local_imports(path: Path, source: str) -> dict[str, str]:
    """The Python files beside `path` that it imports, directly or through one another: {relative path: text}."""
    folder = path.parent
    found: dict[str, str] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [(source, ())]
    while waiting:
        text, package = waiting.pop()
        try:
            tree = parsed(text)
        except (SyntaxError, ValueError):
            continue
        for name in _imported_modules(tree, package):
            relative = Path(*name.split("."))
            for candidate in (relative.with_suffix(".py"), relative / "__init__.py"):
                file = folder / candidate
                if file.is_file() and str(candidate) not in found and file != path:
                    found[str(candidate)] = read_text(file)
                    waiting.append((found[str(candidate)], candidate.parent.parts))
    return found


def _imported_modules(tree: ast.AST, package: tuple[str, ...]) -> list[str]:
    """Dotted names, those of relative imports made absolute; `package` is that of the file."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: max(0, len(package) - node.level + 1)] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                names.append(base)
            names += [f"{base}.{alias.name}" if base else alias.name for alias in node.names]
    # "a.b.c" may be a package a/ with a/b.py: every prefix is looked at
    return [".".join(parts[:n]) for name in names for parts in [name.split(".")] for n in range(1, len(parts) + 1)]


def content_id(files: Mapping[str, str]) -> str:
    """12 hex digits of the SHA-256 over the normalised files, independent of their order."""
    rows = sorted((name, normalised(text) if name.endswith(".py") else text) for name, text in files.items())
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]
