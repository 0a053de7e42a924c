"""NaN and infinities from a kernel."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "safe_ratio",
    "about": "naN and infinities from a kernel",
}
k = load_kernels("kernels/ratio.cpp")


class ModelNew(nn.Module):
    def forward(self, a, b):
        ratio, bad = torch.empty_like(a), torch.empty_like(a, dtype=torch.bool)
        k.ratio(a, b, ratio, bad, a.numel())
        return ratio, bad
