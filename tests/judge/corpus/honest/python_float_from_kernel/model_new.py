"""A scalar that a kernel returns."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "python_float",
    "about": "a scalar that a kernel returns",
}
k = load_kernels("kernels/scalar.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        return k.mean_square(x, self.scale, x.shape[0], x.shape[1])
