"""Folds BatchNorm into the linear layer in prepare()."""

import torch
from torch import nn

CASE = {
    "task": "linear_bn",
    "about": "folds BatchNorm into the linear layer in prepare()",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256)
        self.norm = nn.BatchNorm1d(256)

    def prepare(self):
        n = self.norm
        scale = n.weight.double() * torch.rsqrt(n.running_var.double() + n.eps)
        self.packed = (self.linear.weight.double() * scale[:, None]).t().contiguous().float()
        self.shift = (self.linear.bias.double() * scale + n.bias.double() - n.running_mean.double() * scale).float()

    def forward(self, x):
        return torch.addmm(self.shift, x, self.packed)
