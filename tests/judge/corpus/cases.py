"""The corpus: solutions with what a judge must say about them, each in its own file or folder.

`attacks/` must not be accepted, or must gain nothing; `honest/` must be accepted. A case is a KernelBench-style file or
a folder with `model_new.py` and `kernels/`; its `CASE`, a dictionary literal, holds the fields of `Case`. Texts such as
`@SECRET_FILE@` are replaced by what the test has prepared (`Bait`); a dangerous case refuses to run before that.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from cuda_agent.solution import ENTRY, Solution
from cuda_agent.task import Task

FOLDER = Path(__file__).parent
KEY = "CORPUS_PLANTED_KEY"


@dataclass(frozen=True)
class Bait:
    """What attacks are after, all of it made up by the test. `marker` is a file that must never come into being."""

    secret_file: str
    marker: str
    port: int
    socket: str
    reached: str
    secrets: tuple[str, ...]

    def fill(self, text: str) -> str:
        values = {
            "SECRET_FILE": self.secret_file,
            "MARKER": self.marker,
            "PORT": str(self.port),
            "SOCKET": self.socket,
            "REACHED": self.reached,
            "KEY": KEY,
            "HOME": str(Path.home()),
            "PID_NAMESPACE": os.readlink("/proc/self/ns/pid"),
        }
        for name, value in values.items():
            text = text.replace(f"@{name}@", value)
        return text


@dataclass(frozen=True)
class Case:
    """`truth` is the ratio that the solution really has where it is correct; a reported one must be near it;
    `like` names the honest case that takes as long.

    `naive` says what the naive check does with it ("not run": it needs a sandbox, or would not end); `naive_ratio` is
    the least speed-up that the naive timing then reports, `naive_order` the order in which it runs the two sides.
    `secret` and `marker` name the bait that the case takes, `says` a text that the message has to contain.
    """

    name: str
    kind: Literal["attacks", "honest"]
    path: Path
    task: str
    about: str
    fools: str = ""
    expect: tuple[str, ...] = ("correct",)
    rules: Literal["any", "libraries", "kernels"] = "any"
    mode: Literal["eval", "train"] = "eval"
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    measure: bool = False
    truth: float | None = None
    ratio_below: float | None = None
    like: str | None = None
    naive: Literal["accepts", "rejects", "not run"] = "accepts"
    naive_order: Literal["reference first", "candidate first", "freed"] = "reference first"
    naive_ratio: float | None = None
    slow: bool = False
    dangerous: bool = False
    secret: bool = False
    marker: bool = False
    repeat: int = 1
    says: str = ""

    def solution(self, bait: Bait | None = None) -> Solution:
        """Without bait the texts stay as they are: dangerous cases then refuse to run."""
        solution = Solution.from_path(self.path)
        if bait is None:
            return solution
        return Solution({path: bait.fill(text) for path, text in solution.files.items()}, self.name)


def load(kind: Literal["attacks", "honest"]) -> list[Case]:
    """All cases of a kind, sorted by task so that a judge prepares each task once."""
    return sorted(_load(kind), key=lambda case: (case.task, case.mode, case.precision, case.name))


def tasks() -> dict[str, Task]:
    return {path.stem: Task.from_file(path) for path in sorted((FOLDER / "tasks").glob("*.py"))}


def _load(kind: Literal["attacks", "honest"]) -> Iterator[Case]:
    known = {field.name for field in fields(Case)} - {"name", "kind", "path"}
    for path in sorted((FOLDER / kind).iterdir()):
        entry = path / ENTRY if path.is_dir() else path
        if entry.suffix != ".py" or not entry.is_file():
            continue
        values = _literal(entry)
        if unknown := values.keys() - known:
            raise ValueError(f"{entry}: CASE has the unknown fields {sorted(unknown)}; known are {sorted(known)}")
        values["expect"] = tuple(values.get("expect", ("correct",)))
        yield Case(name=path.stem, kind=kind, path=path, **values)


def _literal(entry: Path) -> dict[str, Any]:
    for node in ast.parse(entry.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CASE":
            values: dict[str, Any] = ast.literal_eval(node.value)
            return values
    raise ValueError(f"{entry} has no CASE")
