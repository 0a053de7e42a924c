"""The first of equal largest elements, found by a kernel."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "argmax",
    "about": "the first of equal largest elements, found by a kernel",
}
k = load_kernels("kernels/argmax.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.int64)
        k.argmax(x, out, x.shape[0], x.shape[1])
        return out
