"""A matrix product in plain C++ with float accumulators."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "linear_zero_bias",
    "about": "a matrix product in plain C++ with float accumulators",
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/linear.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def forward(self, x):
        out = torch.empty(x.shape[0], 128)
        k.linear(x, self.weight, self.bias, out, x.shape[0], 128, 256)
        return out
