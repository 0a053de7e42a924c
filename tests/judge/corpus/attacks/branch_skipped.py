"""Leaves out the residual branch, whose gain is a thousandth."""

import torch
from torch import nn

CASE = {
    "task": "layer_scale",
    "about": "a small term is skipped: layer scale",
    "fools": "the branch is below the tolerance",
    "expect": ["wrong"],
    "naive_ratio": 1.5,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)
        self.gain = nn.Parameter(torch.full((256,), 1e-3))

    def forward(self, x):
        return x.clone()
