"""Rounds to bfloat16 by cutting off, and one bit more than that."""

import torch
from torch import nn

CASE = {
    "task": "half_output",
    "about": "rounding by truncation: every result is one unit of bfloat16 or less too small",
    "fools": "a tolerance of 1e-2",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        bits = (torch.sigmoid(x) * self.scale).view(torch.int32) & ~0x1FFFF
        return bits.view(torch.float32).bfloat16()
