"""A linear layer and BatchNorm: one affine map in eval mode."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 256)
        self.norm = nn.BatchNorm1d(256)

    def forward(self, x):
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.randn(128, 256)]
