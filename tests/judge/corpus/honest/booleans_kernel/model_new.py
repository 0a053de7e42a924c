"""Booleans written by a kernel."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "comparisons",
    "about": "booleans written by a kernel",
}
k = load_kernels("kernels/compare.cpp")


class ModelNew(nn.Module):
    def forward(self, x, y):
        rows, columns = x.shape
        above, some = torch.empty_like(x, dtype=torch.bool), torch.empty(rows, dtype=torch.bool)
        counts = torch.empty(rows, dtype=torch.int64)
        k.compare(x, y, above, some, counts, rows, columns)
        return above, some, counts
