"""Zeros, where every right answer is tiny."""

import torch
from torch import nn

CASE = {
    "task": "softmax_wide",
    "about": "zeros under atol: outputs of 5e-5",
    "fools": "an absolute tolerance of 1e-2",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
