"""Folds BatchNorm's statistics in each call."""

import torch
from torch import nn

CASE = {
    "task": "batch_norm",
    "about": "folds BatchNorm's statistics in each call",
}


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n = self.norm
        scale = n.weight * torch.rsqrt(n.running_var + n.eps)
        centred = x - n.running_mean[:, None, None]
        return centred * scale[:, None, None] + n.bias[:, None, None]
