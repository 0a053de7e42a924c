"""Repacks weights with torch in prepare(), which rules for forward do not reach."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "linear_zero_bias",
    "about": "repacks weights with torch in prepare(), which rules for forward do not reach",
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/packed.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def prepare(self):
        self.packed = (self.weight.detach() * 1.0).t().contiguous()

    def forward(self, x):
        out = torch.empty(x.shape[0], 128)
        k.linear(x, self.packed, self.bias, out, x.shape[0], 128, 256)
        return out
