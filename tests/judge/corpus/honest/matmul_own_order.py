"""A matrix product in an order of its own: outer products over blocks of the inner dimension."""

import torch
from torch import nn

CASE = {
    "task": "linear_zero_bias",
    "about": "a matrix product in an order of its own: outer products over blocks of the inner dimension",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def forward(self, x):
        out = self.bias.expand(x.shape[0], -1).clone()
        for start in range(0, 256, 32):
            out.addmm_(x[:, start : start + 32], self.weight[:, start : start + 32].t())
        return out
