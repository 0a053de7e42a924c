"""A program: compiles one CUDA source, device code alone, with NVRTC into a cubin.

    python -I nvrtc.py MAIN OUT ARCHITECTURE [INCLUDE_FOLDER …]

It ends with 0, 1 (the compiler's words on stderr), or 3 where NVRTC or `cuda.core` is missing. It imports nothing of
this package, so that a sandbox needs to show it nothing else.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

FAILED, MISSING = 1, 3


def main(main_file: str, out: str, architecture: str, *folders: str) -> int:
    try:
        from cuda.core import Program, ProgramOptions
    except ImportError:
        try:
            from cuda.core.experimental import Program, ProgramOptions
        except ImportError as error:
            print(f"cuda.core is not installed: {error}", file=sys.stderr)
            return MISSING
    options = ProgramOptions(
        name=main_file, std="c++17", arch=architecture, lineinfo=True, include_path=list(folders),
        ptxas_options=["-v"],
    )  # fmt: skip
    log = io.StringIO()
    try:
        built = Program(Path(main_file).read_text(encoding="utf-8", errors="replace"), "c++", options).compile(
            "cubin", logs=log
        )
    except Exception as error:
        print(f"{log.getvalue()}{error}", file=sys.stderr)
        return MISSING if "DynamicLibNotFound" in type(error).__name__ else FAILED
    Path(out).write_bytes(bytes(built.code))
    print(log.getvalue(), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
