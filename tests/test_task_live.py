"""Tasks from live modules: the source gives the module's outputs, under the module's own names."""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cuda_agent.errors import TaskError
from cuda_agent.judge.task_module import load, make_inputs, make_model
from cuda_agent.task import Task


class Norm(nn.Module):
    """Buffers of each kind, a constant that is no buffer, and a number as argument."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64) + 1)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).bool())
        self.register_buffer("table", torch.cos(torch.arange(16)[:, None] / torch.arange(1, 65)), persistent=False)
        self.offset = torch.linspace(-1, 1, 64)

    def forward(self, x: torch.Tensor, scale: float, steps: int = 3) -> torch.Tensor:
        x = (x + self.table) * self.weight / scale + self.offset
        scores = torch.softmax(torch.where(self.mask, x @ x.mT, -torch.inf), -1)
        return scores @ x * steps


class Counting(nn.Module):
    """Changes a buffer and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("total", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.total += x.sum(0)
        x[:, 0] = 1.0
        return self.total / self.calls + F.relu(x, inplace=True)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 10, 4, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 10, 32)[:, 1:-1, ::2]


class Outputs(nn.Module):
    def forward(self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]], flag: bool) -> dict[str, Any]:
        x, more = pair
        y = x * more["factor"] if flag else x
        return {"best": y.max(dim=1), "parts": [y + 1, (y.sum(), None)], "size": 3, "where": torch.arange(4)}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 8, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, (hidden, _) = self.lstm(x)
        return out, hidden


class Losses(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(x, y) + F.cross_entropy(x, label, reduction="sum") + F.huber_loss(x, y, delta=0.5)


def convolution() -> nn.Module:
    parts: list[tuple[str, nn.Module]] = [("conv", nn.Conv2d(3, 8, 3, padding=1)), ("norm", nn.BatchNorm2d(8))]
    net = nn.Sequential(OrderedDict([*parts, ("act", nn.SiLU()), ("pool", nn.AdaptiveAvgPool2d(1))]))
    net.norm.running_mean.normal_()
    net.norm.running_var.uniform_(0.5, 2)
    return net


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))


def decoder() -> nn.Module:
    return nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)


def long(*size: int, high: int = 50) -> torch.Tensor:
    return torch.randint(0, high, size)


MODULES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "mlp": (mlp, lambda: torch.randn(5, 8)),
    "conv+bn": (convolution, lambda: [torch.rand(2, 3, 12, 12).to(memory_format=torch.channels_last)]),
    "transposed conv": (
        lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1),
        lambda: [torch.randn(2, 4, 9)],
    ),
    "attention": (Attention, lambda: [torch.randn(2, 10, 32)]),
    "heads": (Heads, lambda: [torch.randn(2, 10, 32)]),
    "decoder": (decoder, lambda: [torch.randn(2, 6, 32), torch.randn(2, 7, 32)]),
    "layernorm": (lambda: nn.LayerNorm([4, 8]), lambda: [torch.randn(3, 4, 8)]),
    "norms": (lambda: nn.Sequential(nn.InstanceNorm1d(4), nn.GroupNorm(2, 4)), lambda: [torch.randn(2, 4, 9)]),
    "tied": (Tied, lambda: {"tokens": long(3, 7)}),
    "embedding bag": (lambda: nn.EmbeddingBag(50, 8), lambda: [long(3, 7)]),
    "lstm": (Recurrent, lambda: [torch.randn(2, 6, 16)]),
    "gru": (lambda: nn.GRU(16, 8), lambda: [torch.randn(6, 2, 16)]),
    "outputs": (Outputs, lambda: [(torch.randn(5, 4), {"factor": torch.randn(4)}), True]),
    "buffers": (Norm, lambda: [torch.randn(2, 16, 64), 2.0]),
    "losses": (Losses, lambda: [torch.randn(5, 9), torch.randn(5, 9), long(5, high=9)]),
    "half": (lambda: nn.Sequential(nn.Linear(8, 4), nn.Softmax(-1)).bfloat16(), lambda: [torch.randn(3, 8).bfloat16()]),
    "counting": (Counting, lambda: [torch.randn(5, 8)]),
    "transposed input": (lambda: nn.Linear(8, 4), lambda: [torch.randn(8, 5).T]),
}


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    """Each task is executed as in a process of its own."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("model", "task_constants"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", MODULES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    make, example = MODULES[name]
    torch.manual_seed(0)
    module, inputs = make(), example()
    before = copy.deepcopy((module.state_dict(), inputs))
    task = Task.from_module(module, inputs, name="live")
    assert module.training and str(before) == str((module.state_dict(), inputs))

    task.write(tmp_path)
    loaded = load(tmp_path)
    generated = make_model(loaded, 0).eval()
    assert list(generated.state_dict()) == list(module.state_dict())
    drawn = make_inputs(loaded, 0)
    generated.load_state_dict(module.state_dict(), strict=True)
    for arguments in (_positional(inputs), drawn):
        with torch.no_grad():
            first = module.eval()(*copy.deepcopy(arguments))
            second = generated(*copy.deepcopy(arguments))
        torch.testing.assert_close(_plain(second), _plain(first), equal_nan=True)


def _positional(inputs: Any) -> list[Any]:
    if isinstance(inputs, torch.Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


class Data(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x


class Random(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


class Cast(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x.mT


class Irregular(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("where", long(1 << 20, high=1 << 30), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[self.where % 4]


class Wrapped(nn.Module):
    def forward(self, x: torch.Tensor) -> object:
        return {"x": x, "why": "text"}


X = torch.zeros(4, 4)
REFUSED: dict[str, tuple[nn.Module, Any, str]] = {
    "no module": (torch.relu, [X], "live is no torch.nn.Module but a builtin_function_or_method"),  # type: ignore[dict-item]
    "no inputs": (nn.ReLU(), [], "there are no example inputs"),
    "inputs a number": (nn.ReLU(), 3, "the example inputs are a int; give a list"),
    "too many": (nn.ReLU(), [X, X], "do not fit ReLU.forward: too many positional arguments"),
    "wrong name": (nn.ReLU(), {"x": X}, "do not fit ReLU.forward: missing a required argument: 'input'"),
    "strange input": (nn.ReLU(), [object()], "the example input input is a object; allowed are tensors"),
    "sparse input": (nn.ReLU(), [X.to_sparse()], "the example input input is no dense tensor"),
    "wrong shape": (nn.Linear(3, 3), [X], "the module fails on its example inputs: RuntimeError: mat1 and mat2"),
    "depends on data": (Data(), [X], "the module cannot be exported at test_task_live.py:"),
    "random": (Random(), [X], "live gives other outputs for the same inputs: it is random, or counts its calls"),
    "autocast": (Cast(), [X], "it uses torch.autocast inside forward; choose a precision for the task instead"),
    "irregular": (Irregular(), [X], "the constant where (1048576,) holds 8.0 MiB of irregular values"),
    "text output": (Wrapped(), [X], "forward returns a str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    module, inputs, line = REFUSED[name]
    with pytest.raises(TaskError) as caught:
        Task.from_module(module, inputs, name="live")
    assert line in str(caught.value) and "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_tied_weights_stay_tied() -> None:
    source = Task.from_module(Tied(), [long(3, 7)]).source
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    model = namespace["Model"]()
    assert model.head.weight is model.embedding.weight


def test_same_module_same_task() -> None:
    module, x = Norm(), torch.randn(2, 16, 64)
    assert Task.from_module(module, [x, 2.0]).id == Task.from_module(module, [x.clone(), 2.0]).id


def test_new_tensors_follow_the_precision() -> None:
    """A judge that runs the task in double precision gets its zeros in double precision."""
    source = Task.from_module(Recurrent(), [torch.randn(2, 6, 16)]).source
    assert "torch.zeros([4, 2, 8], dtype=x.dtype, device=x.device)" in source


def test_numbers_stay_arguments() -> None:
    source = Task.from_module(Norm(), {"x": torch.randn(2, 16, 64), "scale": 2.0, "steps": 4}).source
    assert "y / scale" in source and "y1 * steps" in source and "return [x, 2.0, 4]" in source


class Kinds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((300,), 3.0))
        self.shift = nn.Parameter(torch.randn(300) * 0.1 + 5)
        self.register_buffer("order", torch.randperm(300))

    def forward(self, x: torch.Tensor, keep: torch.Tensor, index: torch.Tensor, causal: torch.Tensor) -> torch.Tensor:
        y = torch.where(keep, x * self.gain + self.shift, 0.0)[:, self.order]
        return y[index] + torch.softmax(causal, -1)[:, :1]


def test_values_of_weights_and_inputs_keep_their_kind(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mask = torch.full((80, 80), -torch.inf).triu(1)
    module, inputs = Kinds(), [torch.rand(80, 300), torch.rand(80, 300) < 0.25, long(80, high=80), mask]
    Task.from_module(module, inputs).write(tmp_path)
    loaded = load(tmp_path)
    model = make_model(loaded, 0)
    assert torch.equal(model.order, module.order) and torch.equal(model.gain, module.gain)
    assert abs(float(model.shift.detach().mean()) - 5) < 0.05 and 0.08 < float(model.shift.detach().std()) < 0.12
    x, keep, index, causal = make_inputs(loaded, 0)
    assert float(x.min()) >= 0 and 0.9 < float(x.max()) <= 1
    assert 0.2 < float(keep.float().mean()) < 0.3
    assert int(index.min()) >= 0 and int(index.max()) < 80
    assert torch.equal(causal, mask)
