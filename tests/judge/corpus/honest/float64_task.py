"""A task in float64."""

import torch
from torch import nn

CASE = {
    "task": "double",
    "about": "a task in float64",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return 2.0 * torch.sinh(x), x.sum(dim=0) / x.shape[0]
