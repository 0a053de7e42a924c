"""`cuda-agent build FOLDER`: compiles the kernels of a solution and stores their signatures beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cuda_agent.cli.console import NOT_CORRECT, OK, guarded, note, say
from cuda_agent.errors import BuildError, SolutionError


@guarded
def build(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with kernels/*.cpp, *.cu or *.py.")],
) -> int:
    """Compile the kernels below FOLDER and write each one's signatures beside it, where the runtime reads them.

    Triton's are imported; Triton compiles them for the arguments of a call. Exit code: 0 all build, 1 one does not,
    2 there are none, 3 no compiler.
    """
    from cuda_agent.backends import BuildCache, backend_for
    from cuda_agent.backends.triton import import_once
    from cuda_agent.sandbox import SandboxedRunner

    cache, failed = BuildCache.from_environment(), False
    for kernel in _kernels(folder):
        try:
            built = backend_for(kernel).build(folder, kernel, cache=cache, runner=SandboxedRunner())
            if built.library is None:
                import_once(folder, kernel, SandboxedRunner())
        except BuildError as error:
            note(str(error), style="red")
            failed = True
            continue
        how = "unchanged" if built.cached else f"built in {built.seconds:.1f} s"
        how = how if built.library else "imports; compiled by its first call"
        say(f"{kernel}: {how}; {', '.join(map(_signature, built.signatures['functions'])) or 'no kernel'}")
        for name, used in built.resources.items():
            say(f"  {name}: " + ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in used.items()))
    return NOT_CORRECT if failed else OK


def _kernels(folder: Path) -> list[str]:
    """The kernels as paths relative to `folder`, sorted. Raises SolutionError if there are none."""
    from cuda_agent.backends import backend_names, get_backend
    from cuda_agent.solution import ENTRY

    if not folder.is_dir():
        raise SolutionError(f"no such folder: {folder}")
    suffixes = {suffix for name in backend_names() for suffix in get_backend(name).suffixes}
    files = [file for file in (folder / "kernels").glob("*") if file.suffix in suffixes]
    found = [f"kernels/{file.name}" for file in files if file.suffix != ".py" or _uses_triton(file)]
    found += [ENTRY] if _uses_triton(folder / ENTRY) else []
    if not found:
        raise SolutionError(f"{folder / 'kernels'} has no source that ends in {', '.join(sorted(suffixes))}")
    return sorted(found)


def _uses_triton(file: Path) -> bool:
    from cuda_agent.sources import imports, read_text

    try:
        return file.is_file() and imports(read_text(file), "triton")
    except (OSError, ValueError) as error:
        raise SolutionError(f"{file} cannot be read: {error}") from None


def _signature(function: dict[str, object]) -> str:
    parameters = function["parameters"]
    assert isinstance(parameters, list)
    return f"{function['name']}({', '.join(parameter['name'] for parameter in parameters)})"
