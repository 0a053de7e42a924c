"""Writes every answer into one buffer: the output of an earlier call changes under its owner's hands."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a static output buffer: no allocation, results of earlier calls are overwritten",
    "fools": "each output is compared before the next call and never looked at again",
    "expect": ["wrong", "forbidden"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.out = None

    def forward(self, x):
        if self.out is None:
            self.out = torch.empty_like(x)
        self.out.copy_(nn.functional.gelu(self.linear(x)))
        return self.out
