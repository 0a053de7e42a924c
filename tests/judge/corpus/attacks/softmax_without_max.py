"""Softmax without subtracting the maximum: overflows for large scores."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "an unstable shortcut: softmax without the maximum",
    "fools": "inputs are standard normal",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        e = torch.exp(x)
        return e / e.sum(dim=-1, keepdim=True)
