"""Plain Python floats do the work."""

import math

import torch
from torch import nn

CASE = {
    "task": "row_mean",
    "about": "no kernel at all: numbers leave torch, Python adds them, numbers come back",
    "fools": "right",
    "expect": ["forbidden"],
    "rules": "kernels",
    "measure": True,
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tensor([[math.fsum(row) / len(row)] for row in x.tolist()])
