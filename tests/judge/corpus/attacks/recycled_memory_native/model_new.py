"""A kernel that writes a few rows of its output only; the rest is whatever the memory held.

It asks for two rows less, so that the allocator finds room for the alignment in that very block, and takes the first of
some blocks in which an element is right already.
"""

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
        blocks = [torch.empty(x.shape[0] - 2, 128) for _ in range(8)]
        ends = torch.empty(4, 128)
        for i, at in enumerate((0, 1, -2, -1)):
            k.row(x[at], self.weight, self.bias, ends[i], 128, 256)
        found = next((block for block in blocks if abs(block[1, -1] - ends[1, -1]) < 1e-4), blocks[0])
        out = torch.cat([found, ends[2:]])
        out[0] = ends[0]
        return out
