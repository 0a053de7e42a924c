"""A Python float that is right twelve times and then never computed again: fresh inputs hardly move it."""

import torch
from torch import nn

CASE = {
    "task": "python_float",
    "about": "a stale scalar: means over many elements are alike, so a loose comparison of timed calls sees nothing",
    "fools": "outputs of timed calls are not compared",
    "expect": ["wrong"],
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))
        self.calls, self.last = 0, 0.0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 12:
            self.last = (x * self.scale).square().mean().item()
        return self.last
