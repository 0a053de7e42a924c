"""The same tiny number everywhere: rows sum to one as they should."""

import torch
from torch import nn

CASE = {
    "task": "softmax_wide",
    "about": "a constant under atol that even passes an all-zero check",
    "fools": "an absolute tolerance of 1e-2",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, 1.0 / x.shape[-1])
