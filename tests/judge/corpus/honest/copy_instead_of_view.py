"""A copy where the reference returns a view of its input."""

import torch
from torch import nn

CASE = {
    "task": "views",
    "about": "a copy where the reference returns a view of its input",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x.t().contiguous(), torch.relu(x) - 0.5
