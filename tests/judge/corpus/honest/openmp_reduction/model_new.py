"""An OpenMP reduction: the order of the sum differs from call to call."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "total",
    "about": "an OpenMP reduction: the order of the sum differs from call to call",
}
k = load_kernels("kernels/reduce.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tensor(k.square_sum(x, x.numel()))
