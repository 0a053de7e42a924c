"""Which errors of a build with the slim headers torch's own headers would not mend, so that half a minute is saved.

Tensor is torch's true class in both; and a name that no installed header mentions is in none of them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cuda_agent.runtime.messages import cut

_TENSOR = re.compile(
    r"^'(?:const )?class at::Tensor' has no member named|no matching function for call to 'at::Tensor::"
)
_UNKNOWN = re.compile(r"^'(\w+)' (?:was not declared in this scope|has not been declared|does not name a type)")
# Torch's macros put such names together from parts
_COMPOSED = re.compile(r"^(?:k[A-Z]|[A-Z][A-Z0-9]*_)")
_SYSTEM = ("/usr/include", "/usr/lib/gcc", "/usr/local/include")


def certain_errors(log: str, name: str, shown: dict[str, bytes], headers: Sequence[Path]) -> str | None:
    """Those errors, worded as `cut` does; None where there is none. `headers` are the folders of torch and Python."""
    message = cut(log, name, shown, limit=10_000)
    blocks = re.split(r"\n(?=\S)", message)
    certain = [block for block in blocks if _certain(block, [str(folder) for folder in headers])]
    return "\n".join(certain[:5]) if certain else None


def _certain(block: str, headers: Sequence[str]) -> bool:
    text = block.split(" error: ", 1)[-1]
    if _TENSOR.search(text):
        return True
    unknown = _UNKNOWN.match(text)
    return bool(unknown) and not _COMPOSED.match(unknown[1]) and not _mentioned(unknown[1], headers)  # type: ignore[index]


def _mentioned(word: str, headers: Sequence[str]) -> bool:
    """Whether any header has the word; also where that cannot be found out."""
    folders = [folder for folder in (*headers, *_SYSTEM) if Path(folder).is_dir()]
    argv = ["grep", "-rqwF", "--", word, *folders]
    try:
        found = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True
    return found.returncode != 1
