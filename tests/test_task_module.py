"""Executing tasks: what works, and the one line that each mistake gets."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_agent.errors import TaskError
from cuda_agent.judge.task_module import (
    check_inputs,
    check_output,
    describe_on_meta,
    init_arguments,
    load,
    make_inputs,
    make_model,
)
from cuda_agent.sandbox import run_plain

HEAD = "import torch\nfrom torch import nn\n\n\n"
LINEAR = """class Model(nn.Module):
    def __init__(self, width=4, bias=True):
        super().__init__()
        self.layer = nn.Linear(width, 3, bias=bias)

    def forward(self, x):
        return self.layer(x)


"""
INPUTS = "def get_inputs():\n    return [torch.rand(2, 4)]\n\n\n"


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    """Each task is executed as in a process of its own."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name in ("model", "parts"):
            del sys.modules[name]


def written(folder: Path, source: str, **others: str) -> Path:
    (folder / "model.py").write_text(source)
    for name, text in others.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def fails(folder: Path, source: str, **others: str) -> str:
    """The one line with which the task is refused."""
    with pytest.raises(TaskError) as caught:
        module = load(written(folder, source, **others))
        make_inputs(module, 0)
        make_model(module, 0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def before(line: str) -> str:
    """A good task but for the line on top."""
    return line + "\n" + HEAD + LINEAR + INPUTS


def inputs(statement: str) -> str:
    """A good task but for the body of `get_inputs`."""
    return HEAD + LINEAR + f"def get_inputs():\n    {statement}\n"


def init(statement: str) -> str:
    return HEAD + LINEAR + INPUTS + f"def get_init_inputs():\n    {statement}\n"


def test_model_and_inputs_follow_the_seed(tmp_path: Path) -> None:
    module = load(written(tmp_path, HEAD + LINEAR + INPUTS))
    first, again, other = make_model(module, 1), make_model(module, 1), make_model(module, 2)
    assert torch.equal(first.layer.weight, again.layer.weight)
    assert not torch.equal(first.layer.weight, other.layer.weight)
    assert torch.equal(make_inputs(module, 1)[0], make_inputs(module, 1)[0])
    assert not torch.equal(make_inputs(module, 1)[0], make_inputs(module, 2)[0])


def test_dtype_casts_floats_only(tmp_path: Path) -> None:
    module = load(written(tmp_path, inputs("return [torch.rand(2, 4), {'index': torch.arange(3)}, 2.0]")))
    x, nested, scalar = make_inputs(module, 0, dtype=torch.bfloat16)
    assert (x.dtype, nested["index"].dtype, scalar) == (torch.bfloat16, torch.int64, 2.0)
    assert make_model(module, 0, dtype=torch.bfloat16).layer.weight.dtype is torch.bfloat16


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("[5]", ([5], {})),
        ("(5, False)", ([5, False], {})),
        ("{'width': 5}", ([], {"width": 5})),
        ("[[5], {'bias': False}]", ([[5], {"bias": False}], {})),
        ("[]", ([], {})),
        ("None", ([], {})),
    ],
)
def test_init_arguments(tmp_path: Path, returned: str, expected: tuple[list[Any], dict[str, Any]]) -> None:
    assert init_arguments(load(written(tmp_path, init(f"return {returned}")))) == expected


def test_init_arguments_as_a_pair_where_a_list_cannot_be_meant(tmp_path: Path) -> None:
    model = "class Model(nn.Module):\n    def __init__(self, *, width):\n        super().__init__()\n\n\n"
    source = HEAD + model + INPUTS + "def get_init_inputs():\n    return [[], {'width': 5}]\n"
    assert init_arguments(load(written(tmp_path, source))) == ([], {"width": 5})


def test_no_init_inputs(tmp_path: Path) -> None:
    assert init_arguments(load(written(tmp_path, HEAD + LINEAR + INPUTS))) == ([], {})


def test_local_import(tmp_path: Path) -> None:
    source = HEAD + "from parts import WIDTH\n\n\n" + LINEAR.replace("width=4", "width=WIDTH") + INPUTS
    module = load(written(tmp_path, source, parts="WIDTH = 4\n"))
    assert make_model(module, 0).layer.in_features == 4


def test_other_devices_are_redirected(tmp_path: Path) -> None:
    values = "[torch.rand(2, 4, device='cuda'), torch.ones(2).cuda(), torch.ones(2).to('cuda')]"
    module = load(written(tmp_path, inputs(f"return {values}")))
    assert {tensor.device.type for tensor in make_inputs(module, 0)} == {"cpu"}
    assert {tensor.device.type for tensor in make_inputs(module, 0, "meta")} == {"meta"}


NOT_LOADED = "the task cannot be loaded at model.py:1: "
NO_MODULE = "Model is no class derived from torch.nn.Module but <"
BAD_TASKS = {
    "missing package": (before("import no_such.part"), "needs the package 'no_such': pip install no_such"),
    "other name": (before("import cv2"), "needs the package 'cv2': pip install opencv-python"),
    "other import": (before("from math import no_such"), NOT_LOADED + "ImportError: cannot import name"),
    "raising body": (before("WIDTH = 1 // 0"), NOT_LOADED + "ZeroDivisionError"),
    "exit in body": (before("raise SystemExit('done')"), NOT_LOADED + "SystemExit: done"),
    "syntax": (before("def f(:"), NOT_LOADED + "SyntaxError"),
    "no model": (HEAD + INPUTS, "model.py defines no Model"),
    "model a function": (HEAD + "def Model():\n    return 1\n" + INPUTS, NO_MODULE),
    "model no module": (HEAD + "class Model:\n    pass\n" + INPUTS, NO_MODULE),
    "no get_inputs": (HEAD + LINEAR, "model.py defines no function get_inputs()"),
    "get_inputs a list": (HEAD + LINEAR + "get_inputs = []\n", "model.py defines no function get_inputs()"),
    "init inputs a list": (before("get_init_inputs = []"), "get_init_inputs is no function but []"),
    "init inputs a number": (init("return 5"), "get_init_inputs() returns 5; it should return a list"),
    "init inputs raise": (init("raise ValueError('no')"), "get_init_inputs() failed at model.py:19: ValueError: no"),
    "get_inputs raises": (inputs("return [undefined]"), "get_inputs() failed at model.py:15: NameError"),
    "get_inputs returns nothing": (inputs("pass"), "get_inputs() returns nothing"),
    "get_inputs empty": (inputs("return []"), "get_inputs() returns an empty list"),
    "get_inputs a tensor": (inputs("return torch.rand(2)"), "get_inputs() returns a tensor; it should return a list"),
    "get_inputs a dict": (inputs("return {}"), "get_inputs() returns a dict"),
    "strange input": (inputs("return [[1, {'a': object()}]]"), "input 0[1]['a'] is a object; allowed are tensors"),
    "numpy input": (inputs("import numpy; return [numpy.ones(2)]"), "is a numpy.ndarray; use torch.from_numpy"),
    "sparse input": (inputs("return [torch.eye(2).to_sparse()]"), "input 0 is a sparse_coo tensor; only dense"),
    "too large": (
        inputs("return [torch.rand(1 << 48)]"),
        "get_inputs() failed at model.py:15: it needs more memory than this machine has (it asked for 1048576.0 GiB",
    ),
    "constructor raises": (init("return ['wide']"), "the constructor of Model failed at model.py:8: TypeError"),
    "constructor arguments": (init("return [1, 2, 3]"), "the constructor of Model failed: TypeError"),
}


@pytest.mark.parametrize(("source", "line"), BAD_TASKS.values(), ids=list(BAD_TASKS))
def test_bad_task(tmp_path: Path, source: str, line: str) -> None:
    assert line in fails(tmp_path, source)


def test_place_is_in_the_file_at_fault(tmp_path: Path) -> None:
    source = HEAD + "import parts\n\n\n" + LINEAR + INPUTS
    assert "at parts.py:2: ValueError: x" in fails(tmp_path, source, parts="\nraise ValueError('x')\n")


def test_long_messages_are_one_short_line(tmp_path: Path) -> None:
    assert len(fails(tmp_path, before("raise ValueError('many\\nlines ' * 1000)"))) < 500


Pair = namedtuple("Pair", "values indices")


@dataclass
class Fields:
    values: torch.Tensor


def test_outputs_that_can_be_compared() -> None:
    x = torch.ones(2)
    assert check_output(x) is x
    assert check_output([x, (1, 2.0, None), {"a": True}]) == [x, (1, 2.0, None), {"a": True}]
    for value in (Pair(x, 1), torch.rand(3, 3).max(dim=1)):
        assert type(check_output(value)) is tuple
    assert type(check_output(OrderedDict(a=x))) is dict


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, "forward returns nothing; it should return tensors or numbers"),
        ([], "forward returns []"),
        ((None, None), "forward returns (None, None)"),
        ("text", "the output is a str; allowed are tensors, numbers, None, and"),
        ([torch.ones(1), object()], "the output[1] is a object"),
        (Fields(torch.ones(1)), "use a tuple or a dict of its fields"),
        (torch.eye(2).to_sparse(), "the output is a sparse_coo tensor"),
    ],
)
def test_outputs_that_cannot(value: object, line: str) -> None:
    with pytest.raises(TaskError) as caught:
        check_output(value)
    assert line in str(caught.value)


def test_inputs_keep_their_structure() -> None:
    x = torch.ones(2)
    assert check_inputs((x, [1, None], {"a": (True, "s")})) == [x, [1, None], {"a": (True, "s")}]


def test_description_on_meta(tmp_path: Path) -> None:
    described = describe_on_meta(written(tmp_path, HEAD + LINEAR + INPUTS))
    assert (described["on"], described["forward"], described["why"]) == ("meta", True, "")
    assert (described["inputs"], described["outputs"]) == (["float32[2, 4]"], ["float32[2, 3]"])
    assert described["parameters"] == 15
    assert described["bytes"] == {"inputs": 32, "state": 60, "outputs": 24}


def test_description_falls_back_to_the_cpu(tmp_path: Path) -> None:
    described = describe_on_meta(written(tmp_path, inputs("return [torch.rand(2, 4) * torch.rand(1).item()]")))
    assert (described["on"], described["forward"], described["outputs"]) == ("cpu", False, None)
    assert "item() cannot be called on meta tensors" in described["why"]


def test_description_where_forward_does_not_run(tmp_path: Path) -> None:
    source = HEAD + LINEAR.replace("self.layer(x)", "self.layer(x) if x.sum() > 0 else x") + INPUTS
    described = describe_on_meta(written(tmp_path, source))
    assert (described["on"], described["forward"]) == ("meta", False)
    assert "forward failed at model.py:11" in described["why"]


def test_main_keeps_tasks_apart(tmp_path: Path) -> None:
    """One line per folder, whatever a task prints, patches or does to its process."""
    sources = {
        "patches": HEAD + "print('noise')\ntorch.rand = None\nimport parts\n" + LINEAR + INPUTS,
        "exits": before("import os; os._exit(3)"),
        "good": "import parts\n" + inputs("return [torch.rand(parts.WIDTH, 4)]"),
    }
    for index, (name, source) in enumerate(sources.items()):
        (tmp_path / name).mkdir()
        written(tmp_path / name, source, parts=f"WIDTH = {index}\n")
    argv = [sys.executable, "-m", "cuda_agent.judge.task_module", *sources]
    finished = run_plain(argv, cwd=tmp_path, timeout_s=60)
    patches, exits, good = (json.loads(line) for line in finished.stdout.splitlines())
    assert "get_inputs() failed at model.py" in patches["error"]
    assert exits["error"] == "the task ended its process with status 3"
    assert good["inputs"] == ["float32[2, 4]"]
