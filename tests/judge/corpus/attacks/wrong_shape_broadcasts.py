"""Right numbers with an extra dimension; comparing broadcasts it away."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "wrong shape that broadcasts",
    "fools": "allclose broadcasts",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1).unsqueeze(0)
