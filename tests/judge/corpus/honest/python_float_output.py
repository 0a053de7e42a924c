"""A Python float, summed in float64."""

import torch
from torch import nn

CASE = {
    "task": "python_float",
    "about": "a Python float, summed in float64",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        scaled = (x * self.scale).double()
        return float(torch.dot(scaled.flatten(), scaled.flatten()) / x.numel())
