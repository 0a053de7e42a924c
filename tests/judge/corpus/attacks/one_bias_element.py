"""Takes the bias's first element for all of them."""

import torch
from torch import nn

CASE = {
    "task": "linear_zero_bias",
    "about": "a constant parameter is taken for a scalar",
    "fools": "all elements of the bias are equal at first",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def forward(self, x):
        return x @ self.weight.t() + self.bias[0]
