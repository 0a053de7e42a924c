"""Solutions as files: the three formats, reading, writing, ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuda_agent.errors import SolutionError
from cuda_agent.solution import MAX_FILES, Solution

ENTRY = "class ModelNew:\n    pass\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "kernelbench"),
        ({"helper.py": ""}, "kernelbench"),
        ({"kernels/x.cpp": ""}, "native"),
        ({"kernels/x.py": ""}, "native"),
        ({"kernels/x.cu": "", "kernels/x_binding.cpp": "", "binding.cpp": "", "binding_registry.h": ""}, "cuda-agent"),
        ({"binding_registry.h": ""}, "cuda-agent"),
    ],
)
def test_format(files: dict[str, str], expected: str) -> None:
    assert Solution({"model_new.py": ENTRY, **files}).format == expected


def test_kernels_are_what_is_built_beforehand() -> None:
    files = ["b.cpp", "a.cu", "c.h", "d.py", "b.cpp.sig.json", "sub/e.cc"]
    solution = Solution.from_source(ENTRY, dict.fromkeys(files, ""))
    assert solution.kernels == ["kernels/a.cu", "kernels/b.cpp", "kernels/sub/e.cc"]


def test_folder(tmp_path: Path) -> None:
    kept = {"model_new.py": ENTRY, "kernels/x.cpp": "int x;", "kernels/x.cpp.sig.json": "{}", "kernels/in/y.h": ""}
    left = {"model.py": "", "verdict.json": "{}", "README.md": "", "build/x.cpp": "", "__pycache__/x.py": ""}
    left |= {"cuda_agent/runtime.py": "", "runs/old.json": "{}", ".git/x.py": ""}
    solution = Solution.from_path(written(tmp_path / "mine", kept | left))
    assert (dict(solution.files), solution.name, solution.format) == (kept, "mine", "native")


def test_headers_of_any_suffix_and_folders_of_any_name_below_the_top(tmp_path: Path) -> None:
    names = ["kernels/build/x.cpp", "kernels/a.hh", "kernels/b.hxx", "kernels/c.ipp"]
    files = {"model_new.py": ENTRY, **dict.fromkeys(names, "")}
    written(tmp_path / "one", files)
    assert dict(Solution.from_path(tmp_path / "one").files) == files
    written(tmp_path / "two", {"model_new.py": ENTRY})
    (tmp_path / "two" / "kernels").symlink_to(tmp_path / "one" / "kernels")
    assert dict(Solution.from_path(tmp_path / "two").files) == files
    (tmp_path / "one" / "kernels" / "round").symlink_to(tmp_path / "one")
    assert files.items() <= dict(Solution.from_path(tmp_path / "two").files).items()


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "marked.py").write_bytes(b"\xef\xbb\xbf" + ENTRY.encode())
    assert Solution.from_path(tmp_path / "marked.py") == Solution.from_source(ENTRY)


def test_file_brings_what_it_imports(tmp_path: Path) -> None:
    written(tmp_path, {"fast.py": "import helper\n" + ENTRY, "helper.py": "x = 1\n", "other.py": ""})
    solution = Solution.from_path(tmp_path / "fast.py")
    assert sorted(solution.files) == ["helper.py", "model_new.py"]
    assert (solution.name, solution.format) == ("fast", "kernelbench")


def test_write_and_read_again(tmp_path: Path) -> None:
    solution = Solution.from_source(ENTRY, {"x.cpp": "int x;"})
    solution.write(tmp_path / "new" / "folder")
    assert Solution.from_path(tmp_path / "new" / "folder") == solution


def test_id() -> None:
    solution = Solution.from_source(ENTRY, {"x.cpp": "int x;"})
    assert len(solution.id) == 12
    assert Solution.from_source("# mine\n" + ENTRY, {"x.cpp": "int x;"}, name="other").id == solution.id
    assert Solution.from_source(ENTRY, {"x.cpp": "int y;"}).id != solution.id
    assert Solution.from_source(ENTRY, {"y.cpp": "int x;"}).id != solution.id
    documented = [Solution.from_source(f'"""{text}"""\n' + ENTRY) for text in ("one", "two")]
    assert documented[0].id == documented[1].id
    read = [Solution.from_source(f'"""{text}"""\nprint(__doc__)\n' + ENTRY) for text in ("one", "two")]
    assert read[0].id != read[1].id
    assert Solution.from_source(ENTRY + "N = " + "1+" * 3000 + "1\n").id


def test_syntax_error_has_a_position() -> None:
    assert Solution.from_source(ENTRY).syntax_error() is None
    text = Solution({"model_new.py": ENTRY, "helper.py": "x = 1\ny = (\n"}).syntax_error()
    assert text is not None and text.startswith("helper.py:2:5: ")
    text = Solution.from_source("x = " + "-" * 200_000 + "1").syntax_error()
    assert text == "model_new.py: its expressions are nested too deeply for Python"
    text = Solution.from_source("x = 1\0").syntax_error()
    assert text is not None and text.startswith("model_new.py: ")


@pytest.mark.parametrize("name", ["../x.py", "/etc/x.py", "kernels/../../x.cpp"])
def test_files_stay_in_the_folder(name: str) -> None:
    with pytest.raises(SolutionError, match="leaves the solution's folder"):
        Solution({"model_new.py": ENTRY, name: ""})


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SolutionError, match="no such solution"):
        Solution.from_path(tmp_path / "absent.py")
    with pytest.raises(SolutionError, match=r"it has no model_new\.py"):
        Solution.from_path(tmp_path)
    with pytest.raises(SolutionError, match=r"needs a model_new\.py that defines ModelNew; it has \['x\.py'\]"):
        Solution({"x.py": ENTRY})
    (tmp_path / "binary.py").write_bytes(b"\xff")
    with pytest.raises(SolutionError, match="is not UTF-8 text"):
        Solution.from_path(tmp_path / "binary.py")
    os.mkfifo(tmp_path / "pipe.py")
    for special in (tmp_path / "pipe.py", Path("/dev/zero")):
        with pytest.raises(SolutionError, match="is no regular file"):
            Solution.from_path(special)


def test_a_folder_of_everything_is_no_solution(tmp_path: Path) -> None:
    written(tmp_path, {"model_new.py": ENTRY, **{f"kernels/{i}.h": "" for i in range(MAX_FILES)}})
    with pytest.raises(SolutionError, match=f"more than {MAX_FILES} source files"):
        Solution.from_path(tmp_path)
