"""A linear layer without its bias, which is zero at first."""

import torch
from torch import nn

CASE = {
    "task": "linear_zero_bias",
    "about": "a bias that is zero at first is skipped",
    "fools": "parameters have their initial values",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def forward(self, x):
        return x @ self.weight.t()
