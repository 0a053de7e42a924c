"""Two native threads spin for ever: they take the cores away from whoever else runs."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "spinning native threads of the candidate slow the baseline and starve the harness",
    "fools": "threads below Python are not counted",
    "expect": ["forbidden", "correct", "runtime_error"],
    "truth": 1.0,
    "measure": True,
    "naive": "not run",
}
k = load_kernels("kernels/spin.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))
        k.spin(2)

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)
