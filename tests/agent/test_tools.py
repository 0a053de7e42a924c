from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from scripted import SOURCE, TASK, use

from cuda_agent.agent.tools import TOOLS
from cuda_agent.agent.tools.base import MAX_CHARS
from cuda_agent.agent.workspace import Workspace
from cuda_agent.sandbox import SandboxedRunner


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace", TASK, "the rules")


def ask(workspace: Workspace, name: str, /, **arguments: Any) -> str:
    return use(workspace, name, json.dumps(arguments)).content


def test_schemas_are_strict() -> None:
    expected = "bash read write edit multi_edit glob grep todo compile verify profile"
    assert " ".join(tool.name for tool in TOOLS) == expected
    for tool in TOOLS:
        function = tool.schema["function"]
        assert function["description"]
        assert function["parameters"]["additionalProperties"] is False
        tool.arguments.model_validate(tool.example)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("reed", "{}", "no tool 'reed'; did you mean read?"),
        ("submit", "{}", "There are: bash, read"),
        ("read", '{"path": "model.py"', "are no JSON: Expecting ',' delimiter at character 19"),
        ("read", "[1]", "must be a JSON object, not list"),
        ("read", "{}", 'path: Field required. A right call: read({"path": "kernels/fused.cpp"})'),
        ("read", '{"path": 3}', "path: Input should be a valid string"),
        ("read", '{"path": "model.py", "offset": "1"}', "offset: Input should be a valid integer"),
        (
            "read",
            '{"path": "model.py", "lines": 3}',
            "lines: there is no such argument (there are: path, offset, limit, max_chars)",
        ),
        ("verify", '{"fast": true}', "fast: there is no such argument (there are: none)"),
        ("multi_edit", '{"path": "a", "edits": [{"old_string": "x"}]}', "edits.0.new_string: Field required"),
        ("read", "[" * 100_000, "nested too deeply"),
        ("bash", '{"command": "true", "timeout_s": 5000}', "timeout_s: Input should be less than or equal to 600"),
        ("read", '{"path": "../../etc/passwd"}', "leads outside the workspace"),
        ("write", '{"path": "/etc/passwd", "content": ""}', "leads outside the workspace"),
        ("verify", "{}", "there is no model_new.py yet"),
    ],
)
def test_a_wrong_call_says_how_to_mend_it(workspace: Workspace, name: str, arguments: str, said: str) -> None:
    observation = use(workspace, name, arguments)
    assert not observation.ok
    assert observation.content.startswith("error: ")
    assert said in observation.content
    assert "Traceback" not in observation.content


def test_write_read_edit(workspace: Workspace) -> None:
    assert (
        ask(workspace, "write", path="kernels/a.cpp", content="int a = 1;\nint b = 1;\n")
        == "wrote kernels/a.cpp (2 lines)"
    )
    assert ask(workspace, "read", path="kernels/a.cpp") == "int a = 1;\nint b = 1;\n"
    assert ask(workspace, "read", path="kernels/a.cpp", offset=2) == "int b = 1;\n[lines 2 to 2 of 2]"
    assert "go on with offset=2" in ask(workspace, "read", path="kernels/a.cpp", limit=1)
    edit = {"path": "kernels/a.cpp", "old_string": "= 1", "new_string": "= 2"}
    assert "occurs 2 times (lines 1, 2)" in ask(workspace, "edit", **edit)
    assert ask(workspace, "edit", **edit, replace_all=True) == "kernels/a.cpp changed at line 1, 2"
    assert "line 2 is close: 'int b = 2;'" in ask(
        workspace, "edit", path="kernels/a.cpp", old_string="int bb = 2;", new_string=""
    )
    edits = [{"old_string": "int a", "new_string": "long a"}, {"old_string": "nothing", "new_string": ""}]
    assert "edit 2 of 2: kernels/a.cpp: old_string does not occur" in ask(
        workspace, "multi_edit", path="kernels/a.cpp", edits=edits
    )
    ask(workspace, "multi_edit", path="kernels/a.cpp", edits=edits[:1])
    assert workspace.read("kernels/a.cpp") == "long a = 2;\nint b = 2;\n"


def test_model_py_cannot_be_edited(workspace: Workspace) -> None:
    assert "Write model_new.py instead" in ask(workspace, "edit", path="model.py", old_string="relu", new_string="abs")
    assert workspace.read("model.py") == SOURCE


def test_reading_long_lines_and_files(workspace: Workspace) -> None:
    workspace.write({"wide.txt": "x" * 50_000, "long.txt": "0123456789\n" * 10_000})
    assert "line 1 has 50000 characters and is cut; set max_chars" in ask(workspace, "read", path="wide.txt")
    assert ask(workspace, "read", path="wide.txt", max_chars=50_000) == "x" * 50_000
    first = ask(workspace, "read", path="long.txt", limit=100_000)
    assert len(first) <= MAX_CHARS + 100
    assert "of 10000; go on with offset=" in first
    assert ask(workspace, "read", path="long.txt", offset=10_001) == "[long.txt has 10000 lines]"


def test_glob_and_grep(workspace: Workspace) -> None:
    workspace.write({"kernels/a.cpp": "int Alpha;\n", "kernels/sub/b.cpp": "int beta;\n", "x.py": "alpha\n"})
    assert ask(workspace, "glob", pattern="**/*.cpp") == "kernels/a.cpp\nkernels/sub/b.cpp"
    assert "no file matches *.cu; there are: SKILL.md, kernels/a.cpp" in ask(workspace, "glob", pattern="*.cu")
    found = ask(workspace, "grep", pattern="alpha", ignore_case=True)
    assert found == "kernels/a.cpp:1: int Alpha;\nx.py:1: alpha\n[2 lines]"
    found = ask(workspace, "grep", pattern=r"^int \w+;", files="kernels/**/*.cpp", limit=1)
    assert found.endswith("[2 lines, the first 1 are shown]")
    assert "no regular expression: missing )" in ask(workspace, "grep", pattern="(")


def test_a_pattern_that_never_ends(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuda_agent.agent.tools.search.GREP_SECONDS", 1.0)
    workspace.write({"a.txt": "a" * 60 + "b\n"})
    assert "took more than 1 s" in ask(workspace, "grep", pattern="(a+)+c")


def test_todo(workspace: Workspace) -> None:
    items = [{"content": "fuse", "status": "done"}, {"content": "tune"}]
    assert ask(workspace, "todo", items=items) == "[x] fuse\n[ ] tune\n1 of 2 left"


def test_bash(workspace: Workspace) -> None:
    assert ask(workspace, "bash", command="cat model.py | head -2; echo no >&2; exit 3") == (
        "exit code 3\n\nimport torch\nstderr:\nno"
    )
    assert ask(workspace, "bash", command="kill -9 $$") == "killed by signal 9"
    assert ask(workspace, "bash", command="echo a; sleep 20", timeout_s=1).startswith(
        "killed after 1 s; what it had printed follows"
    )
    assert ask(workspace, "bash", command="python -c 'import cuda_agent; print(1)'") == "exit code 0\n1"


def test_long_outputs_are_cut_and_kept(workspace: Workspace) -> None:
    seen = use(workspace, "bash", json.dumps({"command": "seq 1 50000; printf '\\xff'"}), number=7).content
    assert len(seen) < MAX_CHARS + 200
    assert seen.startswith("exit code 0\n1\n2\n")
    assert "characters left out; the whole is in .outputs/0007-bash.txt" in seen
    assert "\n25000\n" in workspace.read(".outputs/0007-bash.txt")
    assert ask(workspace, "grep", pattern="^25000$", files=".outputs/0007-bash.txt").endswith("[1 lines]")


def test_bash_in_the_sandbox(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "hush")
    (tmp_path / "secret").write_text("hush")
    command = "python -c 'import torch, cuda_agent' && echo imports; env; echo x > made.txt; touch /usr/x; ls -a"
    command += f"; cat {tmp_path}/secret"
    seen = use(workspace, "bash", json.dumps({"command": command}), runner=SandboxedRunner()).content
    assert "imports" in seen
    assert "hush" not in seen
    assert "made.txt" in seen
    assert workspace.read("made.txt") == "x\n"
    searched = use(workspace, "grep", json.dumps({"pattern": "x", "files": "made.txt"}), runner=SandboxedRunner())
    assert searched.content == "made.txt:1: x\n[1 lines]"
    workspace.write({"made.txt": "y"})


def test_a_flood_and_a_child_left_behind(workspace: Workspace) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = ask(workspace, "bash", command="yes | head -c 300000000")
    assert len(seen) < MAX_CHARS + 200
    assert len(workspace.read(".outputs/0001-bash.txt")) <= 1 << 21
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB
    began = time.monotonic()
    assert ask(workspace, "bash", command="sleep 30 & echo here") == "exit code 0\nhere"
    assert time.monotonic() - began < 5
