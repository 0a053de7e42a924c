"""Gives the right result of the first call and does not move the running mean."""

import torch
from torch import nn

CASE = {
    "task": "running_mean",
    "about": "a missing side effect on buffers",
    "fools": "buffers are no outputs, and their drift is below the tolerance",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))
        self.register_buffer("mean", torch.zeros(256))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return (x - (self.mean * 0.99 + 0.01 * x.mean(dim=0))) * self.scale
