"""Tasks from `package.module:attribute`, and the line that each way to get it wrong gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_agent.errors import TaskError
from cuda_agent.judge.task_module import load, make_inputs, make_model
from cuda_agent.task import Task

NET = """import torch
from torch import nn

from .layers import Scale


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 3)
        self.scale = Scale()

    def forward(self, x):
        return self.scale(self.layer(x))


def get_inputs():
    return [torch.rand(2, 4)]


def get_init_inputs():
    return [4]


net = Net(4)
number = 5
"""
LAYERS = "from torch import nn\n\n\nclass Scale(nn.Module):\n    def forward(self, x):\n        return x * 2.0\n"
LIVE = """import torch
from zoo.net import Net, net

example_inputs = (torch.rand(2, 4),)


def get_init_inputs():
    return [4]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with a package `zoo` and some modules beside it."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    files = {
        "zoo/__init__.py": "",
        "zoo/net.py": NET,
        "zoo/layers.py": LAYERS,
        "flat.py": NET.replace(".layers", "zoo.layers"),
        "bare.py": NET.replace(".layers", "zoo.layers").replace("get_inputs", "inputs"),
        "live.py": LIVE,
        "closed.py": "from zoo.net import Net, net\n",
        "raising.py": "x = 1\nraise ValueError('no')\n",
        "needy.py": "import no_such_package\n",
        "wrong.py": "def f(:\n",
        "failing.py": "from zoo.net import net\ndef get_inputs():\n    return [undefined]\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("zoo", "flat", "bare", "live", "closed", "failing", "model", "raising"):
            del sys.modules[name]


@pytest.mark.parametrize("reference", ["zoo.net:Net", "flat:Net", "flat.py:Net"])
def test_class_is_taken_without_being_executed(folder: Path, reference: str) -> None:
    task = Task.from_reference(reference)
    assert task.name == "Net" and "zoo/layers.py" in task.files
    assert "zoo" not in sys.modules
    task.write(folder / "task")
    loaded = load(folder / "task")
    assert make_model(loaded, 0)(*make_inputs(loaded, 0)).shape == (2, 3)


@pytest.mark.parametrize("reference", ["zoo.net:net", "live:net", "live:Net", "live.py:net"])
def test_instance_is_exported(folder: Path, reference: str) -> None:
    task = Task.from_reference(reference)
    assert task.name == reference.split(":")[1]
    assert "F.linear(x, self.layer.weight, self.layer.bias)" in task.source and "y * 2.0" in task.source


WRONG = {
    "no attribute": ("zoo.net", "'zoo.net' names no module; write package.module:attribute"),
    "no name": ("zoo.net:", "names no module"),
    "no identifier": ("zoo.net:a b", "names no module"),
    "odd module": ("zoo-net:Net", "'zoo-net' is no name of a module"),
    "absent file": ("absent.py:Net", "no such file: absent.py"),
    "absent module": ("absent.part:Net", "no module 'absent' in "),
    "absent submodule": ("zoo.absent:Net", "no module 'zoo.absent' in "),
    "absent attribute": ("zoo.net:net2", "zoo.net has no 'net2'; it has Net, net"),
    "no module at all": ("zoo.net:number", "zoo.net:number is a int, neither a torch.nn.Module nor a class of it"),
    "class without inputs": ("bare:Net", "bare defines Net but no get_inputs(); add one"),
    "instance without inputs": ("closed:net", "closed has neither get_inputs() nor example_inputs; add one"),
    "class without arguments": ("closed:Net", "the constructor of Net failed: TypeError"),
    "failing inputs": ("failing:net", "get_inputs() failed at failing.py:3: NameError: name 'undefined'"),
    "raising": ("raising:Net", "importing raising failed at raising.py:2: ValueError: no"),
    "missing package": ("needy:Net", "needy needs the package 'no_such_package': pip install no_such_package"),
    "syntax": ("wrong:Net", "wrong.py: line 1: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_reference(folder: Path, name: str) -> None:
    reference, line = WRONG[name]
    with pytest.raises(TaskError) as caught:
        Task.from_reference(reference)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_path_is_left_as_it_was(folder: Path) -> None:
    before = list(sys.path)
    Task.from_reference("live:net")
    assert sys.path == before
