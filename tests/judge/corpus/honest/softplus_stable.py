"""Softplus by log1p of exp of minus the magnitude."""

import torch
from torch import nn

CASE = {
    "task": "softplus",
    "about": "softplus by log1p of exp of minus the magnitude",
}


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))
        return y, y.sum(dim=-1) / y.shape[-1]
