"""Returns an object whose unpickling runs a command in whoever unpickles it."""

import os

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "code in a pickled result: the parent that unpickles an output runs it",
    "fools": "outputs travel as pickles",
    "expect": ["wrong", "runtime_error", "forbidden"],
    "marker": True,
}


class Bomb:
    def __reduce__(self):
        return os.system, ("echo boom > @MARKER@",)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return {"out": torch.relu(x * self.weight + self.bias), "more": Bomb()}
