"""Computes in float64 and rounds at the end."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "computes in float64 and rounds at the end",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.double(), dim=-1).float()
