"""Right values in a sparse tensor."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "another layout than the reference's",
    "fools": "the comparison converts to dense",
    "expect": ["wrong", "runtime_error"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias).to_sparse()
