"""Exact GELU by erff in a kernel that the compiler vectorises."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "gelu",
    "about": "another formula for erf GELU with its own rounding",
}
k = load_kernels("kernels/gelu.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k.gelu(x, out, x.numel())
        return out
