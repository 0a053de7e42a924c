"""Buffers that are assigned anew in each call instead of changed in place."""

import torch
from torch import nn

CASE = {
    "task": "running_mean",
    "about": "buffers that are assigned anew in each call instead of changed in place",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))
        self.register_buffer("mean", torch.zeros(256))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls = self.calls + 1
        self.mean = 0.99 * self.mean + 0.01 * x.mean(dim=0)
        return (x - self.mean) * self.scale
