"""Scales and transposes into a contiguous result."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(256))

    def forward(self, x):
        return (x * self.weight).transpose(1, 2).contiguous()


def get_inputs():
    return [torch.randn(8, 128, 256)]
