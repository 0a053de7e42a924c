"""A residual branch with a very small gain."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)
        self.gain = nn.Parameter(torch.full((256,), 1e-3))

    def forward(self, x):
        return x + self.gain * torch.tanh(x @ self.weight)


def get_inputs():
    return [torch.randn(256, 256)]
