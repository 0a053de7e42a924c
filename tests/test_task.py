"""Tasks as source: what is read, what is refused, and which changes change the id."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_agent.errors import TaskError, UsageError
from cuda_agent.sources import MAX_FILE_BYTES, content_id, local_imports, normalised
from cuda_agent.task import Task

SOURCE = '''"""A task."""
import torch
from torch import nn


class Model(nn.Module):
    """Twice the input."""

    def forward(self, x):
        return 2 * x  # doubled


def get_inputs():
    return [torch.rand(4)]


def get_init_inputs():
    return [3]
'''


def test_id_is_twelve_hex_digits() -> None:
    assert len(Task.from_source(SOURCE).id) == 12 and int(Task.from_source(SOURCE).id, 16) >= 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # doubled", ""),
        ('"""A task."""\n', ""),
        ('    """Twice the input."""\n\n', ""),
        ("2 * x", "(2*x)"),
        ("\n\n\ndef get_inputs", "\n\n\n\n\n# inputs\ndef get_inputs"),
        ("return [torch.rand(4)]", "return [\n        torch.rand(4),\n    ]"),
    ],
)
def test_layout_and_comments_do_not_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert Task.from_source(SOURCE.replace(old, new, 1)).id == Task.from_source(SOURCE).id


@pytest.mark.parametrize(
    ("old", "new"),
    [("2 * x", "3 * x"), ("rand(4)", "rand(5)"), ("return [3]", "return [4]"), ("def get_init", "def f")],
)
def test_code_and_init_arguments_count(old: str, new: str) -> None:
    assert Task.from_source(SOURCE.replace(old, new, 1)).id != Task.from_source(SOURCE).id


def test_name_does_not_count() -> None:
    assert Task.from_source(SOURCE, "a").id == Task.from_source(SOURCE, "b").id
    assert Task.from_source(SOURCE, "a") == Task.from_source(SOURCE, "b")


def test_docstring_alone_is_a_body() -> None:
    assert normalised('def f():\n    """x"""\n') == normalised("def f():\n    pass\n")


@given(st.text(alphabet="ab()=:\n #'\"", max_size=40))
def test_any_text_has_a_normal_form(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(st.dictionaries(st.sampled_from(["a.py", "b.py", "c.cpp"]), st.sampled_from(["x = 1", "y", ""]), min_size=1))
def test_id_ignores_the_order_of_files(files: dict[str, str]) -> None:
    assert content_id(files) == content_id(dict(reversed(files.items())))


def test_other_languages_count_to_the_byte() -> None:
    assert content_id({"k.cpp": "int x; // a"}) != content_id({"k.cpp": "int x; // b"})


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_local_imports_count_and_travel(tmp_path: Path) -> None:
    written(tmp_path, {"mine.py": "from parts import width\n" + SOURCE, "parts.py": "import deep.er\n", "other.py": ""})
    written(tmp_path, {"deep/__init__.py": "", "deep/er.py": "from . import near\n", "deep/near.py": "x = 1\n"})
    task = Task.from_file(tmp_path / "mine.py")
    assert sorted(task.files) == ["deep/__init__.py", "deep/er.py", "deep/near.py", "model.py", "parts.py"]
    assert task.name == "mine"
    (tmp_path / "deep" / "near.py").write_text("x = 2\n")
    assert Task.from_file(tmp_path / "mine.py").id != task.id

    task.write(tmp_path / "copy")
    assert Task.from_file(tmp_path / "copy" / "model.py") == task


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("import pack", ["pack/__init__.py"]),
        ("import pack.part as p", ["pack/__init__.py", "pack/part.py"]),
        ("from pack import part, absent", ["pack/__init__.py", "pack/part.py"]),
        ("from pack.inner.leaf import x", ["pack/__init__.py", "pack/inner/leaf.py", "pack/part.py"]),
        ("import torch, sys", []),
        ("def f():\n    import pack.part", ["pack/__init__.py", "pack/part.py"]),
        ("import (", []),
    ],
)
def test_local_imports(tmp_path: Path, statement: str, found: list[str]) -> None:
    written(
        tmp_path, {"pack/__init__.py": "", "pack/part.py": "import pack", "pack/inner/leaf.py": "from ..part import x"}
    )
    assert sorted(local_imports(tmp_path / "task.py", statement)) == found


def refused(source: str) -> str:
    with pytest.raises(TaskError) as caught:
        Task.from_source(source, "mine")
    assert isinstance(caught.value, UsageError) and "\n" not in str(caught.value)
    return str(caught.value)


def test_syntax_error_names_the_line() -> None:
    assert refused("import torch\nclass Model(:\n").startswith("mine: line 2: ")


def test_null_byte() -> None:
    assert refused("x = 1\0") == "mine: source code string cannot contain null bytes"


def test_missing_parts() -> None:
    assert "no class Model (it defines Net)" in refused(SOURCE.replace("class Model", "class Net"))
    assert "no class Model (it defines no class)" in refused("def get_inputs(): ...")
    assert "no get_inputs()" in refused(SOURCE.replace("get_inputs", "inputs"))


@pytest.mark.parametrize(
    "source",
    [
        "from zoo import Net as Model\nget_inputs = list\n",
        "from zoo import *\n",
        "try:\n    from zoo import Model\nexcept ImportError:\n    Model = None\nif True:\n    def get_inputs(): ...\n",
        "with open('x') as f:\n    class Model: ...\n(get_inputs := list)\n",
    ],
)
def test_names_may_be_bound_in_any_way(source: str) -> None:
    assert Task.from_source(source).source == source


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no such task"):
        Task.from_file(tmp_path / "absent.py")
    with pytest.raises(TaskError, match="cannot be read"):
        Task.from_file(tmp_path)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match="is not UTF-8 text"):
        Task.from_file(tmp_path / "binary.py")
    (tmp_path / "large.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(TaskError, match="more than the 4194304 that a source file may have"):
        Task.from_file(tmp_path / "large.py")


def test_a_neighbour_may_not_have_the_name_of_the_task_s_own_file(tmp_path: Path) -> None:
    written(tmp_path, {"mine.py": "from model import Model\nget_inputs = list\n", "model.py": SOURCE})
    with pytest.raises(TaskError, match=r"imports model\.py beside it"):
        Task.from_file(tmp_path / "mine.py")


@pytest.mark.parametrize("name", ["../x.py", "/x.py", "a/../../x.py"])
def test_files_stay_in_the_folder(name: str) -> None:
    with pytest.raises(TaskError, match="leaves the task's folder"):
        Task({"model.py": SOURCE, name: ""})


def test_no_entry() -> None:
    with pytest.raises(TaskError, match=r"needs a model\.py; it has \['other\.py'\]"):
        Task({"other.py": SOURCE})


def test_files_are_fixed() -> None:
    files = {"model.py": SOURCE}
    task = Task(files)
    files["model.py"] = "changed"
    assert task.source == SOURCE
    with pytest.raises(TypeError):
        task.files["model.py"] = "changed"  # type: ignore[index]
