"""Three kernel files, one local header beside them and one in a folder."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "moments",
    "about": "three kernel files, one local header beside them and one in a folder",
}
k = load_kernels("kernels/mean.cpp")
k2 = load_kernels("kernels/variance.cpp")
k3 = load_kernels("kernels/top.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        mean, variance, top = torch.empty(rows), torch.empty(rows), torch.empty(rows)
        index = torch.empty(rows, dtype=torch.int64)
        k.mean(x, mean, rows, columns)
        k2.variance(x, mean, variance, rows, columns)
        k3.top(x, top, index, rows, columns)
        return mean, variance, top, index
