"""Computes three rows, takes the others from uninitialised memory: the block in which the reference's answer was freed.

It asks for two rows less, so that the allocator finds room for the alignment in that very block, and takes the first of
some blocks in which an element is right already.
"""

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
        blocks = [torch.empty(x.shape[0] - 2, 128) for _ in range(8)]
        ends = self.rows(x[[0, 1, -2, -1]])
        found = next((block for block in blocks if abs(block[1, -1] - ends[1, -1]) < 1e-4), blocks[0])
        out = torch.cat([found, ends[2:]])
        out[0] = ends[0]  # the allocator's own links overwrite the first bytes of a freed block
        return out

    def rows(self, x):
        return torch.stack([row @ self.weight[c] + self.bias[c] for row in x for c in range(128)]).view(-1, 128)
