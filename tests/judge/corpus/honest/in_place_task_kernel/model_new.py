"""A kernel that changes an input and returns sums of it."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "accumulate",
    "about": "a kernel that changes an input and returns sums of it",
}
k = load_kernels("kernels/accumulate.cpp")


class ModelNew(nn.Module):
    def forward(self, total, x):
        out = torch.empty(total.shape[0])
        k.accumulate(total, x, out, total.shape[0], total.shape[1])
        return out
