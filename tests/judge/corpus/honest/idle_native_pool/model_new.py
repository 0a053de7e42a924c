"""A worker thread that sleeps on a condition variable between calls."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "gelu",
    "about": "a worker thread that sleeps on a condition variable between calls",
    "measure": True,
}
k = load_kernels("kernels/pool.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k.gelu(x, out, x.numel())
        return out
