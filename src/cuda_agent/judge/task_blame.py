"""Whatever a task's code raises, as one line that names the place in the task's own files."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cuda_agent.errors import TaskError

_PACKAGES = {"cv2": "opencv-python", "PIL": "pillow", "sklearn": "scikit-learn", "skimage": "scikit-image"}
_MAX_MESSAGE = 400


@contextmanager
def blaming(folder: Path, what: str) -> Iterator[None]:
    """Turns whatever is raised inside into a TaskError of one line: `what`, the place in `folder`, the message."""
    try:
        yield
    except TaskError:
        raise
    except (Exception, SystemExit) as error:
        raise TaskError(_explained(error, folder, what)) from error


def _explained(error: BaseException, folder: Path, what: str) -> str:
    if (missing := _missing_package(error, folder)) is not None:
        return missing
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, MemoryError) or re.search(r"can't allocate memory|out of memory|bad_alloc", message):
        asked = re.search(r"tried to allocate (\d+) bytes", message)
        size = f" (it asked for {int(asked[1]) / 2**30:.1f} GiB at once)" if asked else ""
        return f"{what}{_place(error, folder)}: it needs more memory than this machine has{size}"
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + " ..."
    return f"{what}{_place(error, folder)}: {type(error).__name__}: {message}"


def _missing_package(error: BaseException, folder: Path) -> str | None:
    """A line about what to install if `error` says that an import found nothing."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    package = error.name.split(".")[0]
    if package in sys.modules or (folder / package).is_dir():
        return None
    return f"needs the package {package!r}: pip install {_PACKAGES.get(package, package)}"


def _place(error: BaseException, folder: Path) -> str:
    """` at FILE:LINE` for the innermost place in the task's own files, or nothing."""
    if isinstance(error, SyntaxError) and error.filename:
        file, line = Path(error.filename), error.lineno
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(folder)]
        if not frames:
            return ""
        file, line = Path(frames[-1].filename), frames[-1].lineno
    return f" at {file.relative_to(folder) if file.is_relative_to(folder) else file.name}:{line}"


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
