"""Writes far behind its output: ruins the heap of its process, with luck after the right answer."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "an out-of-bounds write",
    "fools": "the answer is right and the damage shows up later, in somebody else's evaluation",
    "expect": ["runtime_error", "wrong", "correct", "forbidden"],
    "naive": "not run",
}
k = load_kernels("kernels/wild.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        out = torch.relu(x * self.weight + self.bias)
        small = torch.empty(4)
        k.wild(x, small, 4096)
        return out
