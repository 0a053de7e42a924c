"""`torch.utils.cpp_extension.load_inline` and `load` as they are, but built through the cache and with slim headers.

`install()` puts them in torch's place, in the process that runs somebody's solution. What they cannot do (CUDA, SYCL,
standalone programs) is left to torch.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from cuda_agent.backends.extension import Extension, Unit, build_full, build_slim
from cuda_agent.runtime import BuildCache, KernelError

log = logging.getLogger(__name__)
_CUDA_SUFFIXES = (".cu", ".cuh", ".hip")


def install(cache: BuildCache | None = None) -> None:
    """Replaces torch's two functions in this process; `cache` is by default the one of the environment."""
    from torch.utils import cpp_extension

    if getattr(cpp_extension.load_inline, "cuda_agent", False):
        return
    builder = _Builder(cache, cpp_extension.load_inline, cpp_extension.load)
    load_inline, load = builder.inline(), builder.files()
    for function in (load_inline, load):
        function.cuda_agent = True  # type: ignore[attr-defined]
    cpp_extension.load_inline = load_inline
    cpp_extension.load = load


class _Builder:
    def __init__(
        self, cache: BuildCache | None, torch_load_inline: Callable[..., Any], torch_load: Callable[..., Any]
    ) -> None:
        self._cache = cache
        self._torch_load_inline = torch_load_inline
        self._torch_load = torch_load

    def inline(self) -> Callable[..., Any]:
        def load_inline(
            name: str,
            cpp_sources: str | Sequence[str],
            cuda_sources: str | Sequence[str] | None = None,
            sycl_sources: str | Sequence[str] | None = None,
            functions: str | Sequence[str] | Mapping[str, str] | None = None,
            extra_cflags: Sequence[str] | None = None,
            *args: Any,
            **options: Any,
        ) -> Any:
            given = (name, cpp_sources, cuda_sources, sycl_sources, functions, extra_cflags, *args)
            if cuda_sources or options.get("with_cuda"):
                _require_cuda(name)
                return self._torch_load_inline(*given, **options)
            if sycl_sources or args or options.get("with_sycl"):
                return self._torch_load_inline(*given, **options)
            units, shown = _inline_unit(cpp_sources, functions, options)
            return self._loaded(_extension(name, units, shown, extra_cflags, options), options)

        return load_inline

    def files(self) -> Callable[..., Any]:
        def load(
            name: str,
            sources: str | Sequence[str],
            extra_cflags: Sequence[str] | None = None,
            *args: Any,
            **options: Any,
        ) -> Any:
            paths = [Path(source) for source in ([sources] if isinstance(sources, str | Path) else sources)]
            if options.get("with_cuda") or any(path.suffix in _CUDA_SUFFIXES for path in paths):
                _require_cuda(name)
                return self._torch_load(name, sources, extra_cflags, *args, **options)
            if args or options.get("with_sycl") or options.get("is_standalone"):
                return self._torch_load(name, sources, extra_cflags, *args, **options)
            units = [Unit(path.name, path.read_text(encoding="utf-8"), path.absolute().parent) for path in paths]
            shown = [(unit.name, unit.text) for unit in units]
            return self._loaded(_extension(name, units, shown, extra_cflags, options), options)

        return load

    def _loaded(self, extension: Extension, options: Mapping[str, Any]) -> Any:
        """The module; with `is_python_module=False` its operators are registered and its path is returned."""
        started = time.monotonic()
        cache = self._cache or BuildCache.from_environment()
        as_module = bool(options.get("is_python_module", True))
        try:
            library = build_slim(extension, cache)
            loaded = None if library is None else _try_open(extension.name, library, as_module)
            if loaded is None:
                loaded = _opened(extension.name, build_full(extension, cache), as_module)
        except KernelError as error:
            raise RuntimeError(f"Error building extension {extension.name!r}:\n{error}") from None
        log.debug("extension %s loaded in %.2f s", extension.name, time.monotonic() - started)
        return loaded


def _extension(
    name: str,
    units: Sequence[Unit],
    shown: Sequence[tuple[str, str]],
    extra_cflags: Sequence[str] | None,
    options: Mapping[str, Any],
) -> Extension:
    return Extension(
        name=name,
        units=tuple(units),
        cflags=tuple(flag.strip() for flag in extra_cflags or ()),
        ldflags=tuple(flag.strip() for flag in options.get("extra_ldflags") or ()),
        include_paths=tuple(Path(path).absolute() for path in options.get("extra_include_paths") or ()),
        shown=tuple(shown),
    )


def _inline_unit(
    cpp_sources: str | Sequence[str], functions: Any, options: Mapping[str, Any]
) -> tuple[list[Unit], list[tuple[str, str]]]:
    """All sources as one unit, as torch does it, with the bindings of `functions` after them."""
    sources = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    labels = ["cpp_sources"] if len(sources) == 1 else [f"cpp_sources[{index}]" for index in range(len(sources))]
    lines = [] if options.get("no_implicit_headers") else ["#include <torch/extension.h>"]
    for label, source in zip(labels, sources, strict=True):
        lines += [f'#line 1 "{label}"', source]
    if functions is not None:
        lines += ['#line 1 "functions"', *_bindings(functions, bool(options.get("with_pytorch_error_handling", True)))]
    return [Unit("main.cpp", "\n".join(lines) + "\n")], list(zip(labels, sources, strict=True))


def _bindings(functions: Any, wrapped: bool) -> list[str]:
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, list | tuple):
        functions = {function: function for function in functions}
    if not isinstance(functions, dict):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for name, doc in functions.items():
        function = f"torch::wrap_pybind_function({name})" if wrapped else name
        lines.append(f'm.def("{name}", {function}, {json.dumps(doc)});')
    return [*lines, "}"]


def _require_cuda(name: str) -> None:
    import torch

    if not torch.cuda.is_available():
        why = "torch is built without CUDA" if torch.version.cuda is None else "there is no NVIDIA GPU"
        raise RuntimeError(f"the extension {name!r} has CUDA sources, but {why}: use cpp_sources only on this machine")


def _try_open(name: str, library: Path, as_module: bool) -> Any:
    """None where a library built with the slim headers does not load (a symbol that this torch lacks, say)."""
    try:
        return _opened(name, library, as_module)
    except (ImportError, OSError) as error:
        log.debug("the slim build of %s does not load: %s", name, error)
        return None


def _opened(name: str, library: Path, as_module: bool) -> ModuleType | str:
    import torch

    if not as_module:
        torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
        return str(library)
    spec = importlib.util.spec_from_file_location(name, library)
    if spec is None or spec.loader is None:
        raise ImportError(f"{library} cannot be imported as {name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
