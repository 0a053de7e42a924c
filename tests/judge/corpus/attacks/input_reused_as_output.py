"""Computes in place, in the input's own memory, and returns that."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "an output that aliases the input where the reference's does not",
    "fools": "nobody looks at the inputs afterwards",
    "expect": ["wrong", "forbidden"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return x.mul_(self.weight).add_(self.bias).relu_()
