"""A task from `package.module:attribute`, as a user writes it on the command line.

A class that the module's file defines becomes a task without being executed: its file with its local imports. An
instance, or a class that comes from elsewhere, is imported into this process and exported.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cuda_agent.errors import TaskError
from cuda_agent.sources import local_imports, parsed, read_text

FORM = "package.module:attribute or file.py:attribute"


def reference_files(reference: str, folder: Path) -> tuple[dict[str, str], str]:
    """The files and the name of the task; modules are looked up in `folder` first. Raises TaskError."""
    module, _, attribute = reference.rpartition(":")
    if not module or not attribute.isidentifier():
        raise TaskError(f"{reference!r} names no module; write {FORM}")
    if module.endswith(".py"):
        folder, module = (folder / module).parent, Path(module).stem
    if not all(part.isidentifier() for part in module.split(".")):
        raise TaskError(f"{module!r} is no name of a module; write {FORM}")
    file = _file(folder, module)
    if file is None and reference.rpartition(":")[0].endswith(".py"):
        raise TaskError(f"no such file: {folder / module}.py")
    if file is not None and (files := _class_files(folder, file, module, attribute)) is not None:
        return files, attribute
    return _live_files(folder, module, attribute), attribute


def _file(folder: Path, module: str) -> Path | None:
    base = folder.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _class_files(folder: Path, file: Path, module: str, attribute: str) -> dict[str, str] | None:
    """The task of a class that `file` defines at its top level; None where it does not."""
    try:
        source = read_text(file)
        tree = parsed(source)
    except SyntaxError as error:
        raise TaskError(f"{file.name}: line {error.lineno}: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise TaskError(f"{file} cannot be read: {error}") from None
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    if not any(isinstance(node, ast.ClassDef) and node.name == attribute for node in tree.body):
        return None
    if "get_inputs" not in defined:
        raise TaskError(f"{module} defines {attribute} but no get_inputs(); add one that returns forward's arguments")
    if "." not in module and file.name != "__init__.py":
        alias = "" if attribute == "Model" else f"\n\nModel = {attribute}\n"
        return {"model.py": source + alias, **local_imports(file, source)}
    if module.split(".")[0] == "model":
        raise TaskError(f"the package of {module} is called model, which is the name of a task's own file; rename it")
    names = ["get_inputs", *(["get_init_inputs"] if "get_init_inputs" in defined else [])]
    entry = f"from {module} import {attribute} as Model, {', '.join(names)}\n"
    return {"model.py": entry, **local_imports(folder / "model.py", entry)}


def _live_files(folder: Path, module: str, attribute: str) -> dict[str, str]:
    from torch import nn

    from cuda_agent.live_task import module_files

    imported = _imported(folder, module)
    if not hasattr(imported, attribute):
        modules = [
            name for name, value in vars(imported).items() if isinstance(value, nn.Module) or _is_own(value, module)
        ]
        have = f"it has {', '.join(modules)}" if modules else "and no other torch.nn.Module"
        raise TaskError(f"{module} has no {attribute!r}; {have}")
    found = getattr(imported, attribute)
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = _constructed(found, imported)
    if not isinstance(found, nn.Module):
        raise TaskError(
            f"{module}:{attribute} is a {type(found).__name__}, neither a torch.nn.Module nor a class of it"
        )
    return module_files(found, _inputs(imported, module), attribute)


def _is_own(value: Any, module: str) -> bool:
    from torch import nn

    return isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == module


def _imported(folder: Path, module: str) -> ModuleType:
    path = str(folder.resolve())
    sys.path.insert(0, path)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if module == missing or module.startswith(missing + "."):
            raise TaskError(f"no module {missing!r} in {path}, and none that is installed") from None
        raise TaskError(f"{module} needs the package {missing!r}: pip install {missing.split('.')[0]}") from None
    except (Exception, SystemExit) as error:
        raise TaskError(f"importing {module} failed{_place(error)}: {_one_line(error)}") from error
    finally:
        sys.path.remove(path)


def _constructed(model_class: type, imported: ModuleType) -> Any:
    make = getattr(imported, "get_init_inputs", None)
    given = _called(make, "get_init_inputs()") if callable(make) else []
    args, kwargs = ([], given) if isinstance(given, dict) else (given, {})
    return _called(lambda: model_class(*args, **kwargs), f"the constructor of {model_class.__name__}")


def _inputs(imported: ModuleType, module: str) -> Any:
    for name in ("get_inputs", "example_inputs"):
        found = getattr(imported, name, None)
        if callable(found):
            return _called(found, f"{name}()")
        if found is not None:
            return found
    raise TaskError(f"{module} has neither get_inputs() nor example_inputs; add one with forward's arguments")


def _called(function: Callable[[], Any], what: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise TaskError(f"{what} failed{_place(error)}: {_one_line(error)}") from error


def _place(error: BaseException) -> str:
    from cuda_agent.live.export import place

    return place(error)


def _one_line(error: BaseException) -> str:
    from cuda_agent.live.export import one_line

    return one_line(error)
