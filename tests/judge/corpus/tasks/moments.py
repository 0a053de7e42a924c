"""A tuple: mean, variance, largest value and its index, per row."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        top = x.max(dim=-1)
        return x.mean(dim=-1), x.var(dim=-1), top.values, top.indices


def get_inputs():
    return [torch.randn(256, 1024)]
