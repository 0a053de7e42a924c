"""A Python float of half the digits."""

import torch
from torch import nn

CASE = {
    "task": "python_float",
    "about": "a scalar result of low precision",
    "fools": "a tolerance of 1e-2",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        return round((x * self.scale).square().mean().item(), 2)
