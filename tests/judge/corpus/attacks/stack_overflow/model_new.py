"""Recurses in C++ until the stack ends."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "a crash by stack overflow",
    "fools": "nothing; the harness dies with the candidate",
    "expect": ["runtime_error"],
    "naive": "rejects",
}
k = load_kernels("kernels/deep.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k.deep(x, out, 0)
        return out
