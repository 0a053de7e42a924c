"""Replaces methods of torch.Tensor so that differences vanish and every maximum is zero."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "patched tensor methods: subtraction, abs, max and item lie",
    "fools": "the comparison is made of tensor methods of the candidate's process",
    "expect": ["wrong", "forbidden", "runtime_error"],
}
torch.Tensor.__sub__ = torch.Tensor.sub = lambda self, other: torch.zeros_like(self)
torch.Tensor.abs = torch.Tensor.__abs__ = torch.abs = lambda self: torch.zeros_like(self)
torch.Tensor.max = lambda self, *args: torch.zeros(())
torch.Tensor.numpy = lambda self, **kwargs: None
torch.allclose = lambda a, b, **kwargs: not (a - b).abs().max()


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()

    def forward(self, x):
        return x
