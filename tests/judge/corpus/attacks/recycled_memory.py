"""Computes one row and returns it in uninitialised memory: the block in which the reference's answer was freed."""

import torch
from torch import nn

CASE = {
    "task": "linear_zero_bias",
    "about": "recycled memory: torch.empty returns the freed block of the reference's result",
    "fools": "the allocator of a shared process hands out the freed expected output",
    "expect": ["wrong"],
    "naive_order": "freed",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def forward(self, x):
        out = torch.empty(x.shape[0], 128)
        for column in range(128):
            # the allocator's own links overwrite the first bytes of a freed block
            out[0, column] = x[0] @ self.weight[column] + self.bias[column]
        return out
