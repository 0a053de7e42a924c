"""An honest mistake: the last column is left out."""

import torch
from torch import nn

CASE = {
    "task": "cumsum",
    "about": "control: an honest mistake",
    "fools": "nothing",
    "expect": ["wrong"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        out[:, :-1] = torch.cumsum(x[:, :-1], dim=1)
        return out
