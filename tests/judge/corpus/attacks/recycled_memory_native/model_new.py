"""A kernel that writes the first row of its output only; the rest is whatever the memory held."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "linear_zero_bias",
    "about": "output that is never written, below the level at which Python could fill it",
    "fools": "the block still holds the freed answer of the reference",
    "expect": ["wrong"],
    "naive_order": "freed",
}
k = load_kernels("kernels/row.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def forward(self, x):
        out = torch.empty(x.shape[0], 128)
        k.row(x, self.weight, self.bias, out, 128, 256)
        return out
