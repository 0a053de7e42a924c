from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripted import SOURCE, TASK

from cuda_agent.agent.workspace import MAX_WRITE_BYTES, Workspace
from cuda_agent.errors import SolutionError, UsageError
from cuda_agent.task import Task

ENTRY = "class ModelNew: pass\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace", TASK, "the rules")


def test_layout(workspace: Workspace) -> None:
    assert sorted(p.name for p in workspace.folder.iterdir()) == ["SKILL.md", "kernels", "model.py"]
    assert workspace.read("model.py") == SOURCE


def test_opening_again_restores_the_copy_and_keeps_the_work(workspace: Workspace) -> None:
    workspace.write({"model_new.py": ENTRY})
    (workspace.folder / "model.py").write_text("changed")
    again = Workspace(workspace.folder, TASK, "the rules")
    assert again.read("model.py") == SOURCE
    assert again.read("model_new.py") == ENTRY


def test_solution_is_the_entry_its_imports_and_the_kernels(workspace: Workspace) -> None:
    workspace.write(
        {
            "model_new.py": "import helper\n" + ENTRY,
            "helper.py": "x = 1\n",
            "scratch.py": "print('not part of it')\n",
            "graph.json": "{}",
            "kernels/a.cpp": "int a;\n",
            "kernels/sub/b.h": "int b;\n",
            "kernels/notes.md": "no source\n",
        }
    )
    assert sorted(workspace.solution().files) == ["helper.py", "kernels/a.cpp", "kernels/sub/b.h", "model_new.py"]


def test_model_py_is_never_part_of_a_solution(workspace: Workspace) -> None:
    workspace.write({"model_new.py": "from model import Model\nclass ModelNew(Model): pass\n"})
    assert list(workspace.solution().files) == ["model_new.py"]


def test_no_entry_yet(workspace: Workspace) -> None:
    with pytest.raises(SolutionError, match=r"no model_new\.py yet"):
        workspace.solution()


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "kernels/../../x", "", "a\0b", "x/" * 3000])
def test_paths_outside(workspace: Workspace, path: str) -> None:
    for use in (workspace.read, lambda p: workspace.check_write(p, "")):
        with pytest.raises(UsageError):
            use(path)


def test_paths_of_the_sandbox_are_understood(workspace: Workspace) -> None:
    assert workspace.read("/workspace/model.py") == SOURCE
    assert workspace.read(str(workspace.folder / "model.py")) == SOURCE


def test_links_that_lead_outside(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret.cpp").write_text("secret")
    workspace.write({"model_new.py": ENTRY})
    (workspace.folder / "kernels" / "a.cpp").symlink_to(tmp_path / "secret.cpp")
    assert list(workspace.solution().files) == ["model_new.py"]
    (workspace.folder / "out").symlink_to(tmp_path)
    for path in ("kernels/a.cpp", "out/secret.cpp"):
        with pytest.raises(UsageError, match="outside"):
            workspace.read(path)
        with pytest.raises(UsageError, match="outside"):
            workspace.write({path: "x"})
    (workspace.folder / "model_new.py").unlink()
    (workspace.folder / "model_new.py").symlink_to(tmp_path / "secret.cpp")
    with pytest.raises(SolutionError, match="outside"):
        workspace.solution()
    assert (tmp_path / "secret.cpp").read_text() == "secret"


def test_a_folder_that_became_a_link(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.folder / "kernels").rmdir()
    (workspace.folder / "kernels").symlink_to(tmp_path)
    workspace.write({"model_new.py": ENTRY})
    with pytest.raises(SolutionError, match="outside"):
        workspace.solution()
    Workspace(workspace.folder, TASK, "the rules")


def test_a_pipe_does_not_hang_the_reader(workspace: Workspace) -> None:
    os.mkfifo(workspace.folder / "model_new.py")
    with pytest.raises(SolutionError, match="no plain file"):
        workspace.solution()
    with pytest.raises(UsageError, match="no plain file"):
        workspace.check_write("model_new.py", "x")


def test_sizes(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="may have"):
        workspace.check_write("kernels/a.cpp", "x" * (MAX_WRITE_BYTES + 1))
    with open(workspace.folder / "big.txt", "wb") as file:
        file.truncate(5 << 20)
    with pytest.raises(UsageError, match="more than"):
        workspace.read("big.txt")


def test_what_is_told(workspace: Workspace) -> None:
    for path, said in {
        "kernels": "is a folder; it holds: nothing",
        "modle.py": r"no modle\.py; the workspace holds: SKILL\.md, kernels/, model\.py",
        "kernels/a.cpp": r"no kernels/a\.cpp; kernels/ holds: nothing",
        "model.py/x": "no model",
    }.items():
        with pytest.raises(UsageError, match=said):
            workspace.read(path)
    with pytest.raises(UsageError, match=r"Write model_new\.py instead"):
        workspace.check_write("./model.py", "x")
    with pytest.raises(UsageError, match=r"model\.py is a file, not a folder"):
        workspace.check_write("model.py/x", "x")


def test_a_task_of_several_files(tmp_path: Path) -> None:
    task = Task({"model.py": "from parts.a import Model, get_inputs\n", "parts/a.py": SOURCE})
    workspace = Workspace(tmp_path, task)
    assert workspace.read("parts/a.py") == SOURCE
    with pytest.raises(UsageError, match="copy"):
        workspace.check_write("parts/a.py", "x")
