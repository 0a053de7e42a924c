"""BatchNorm over channels; in train mode its running statistics change."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(16, 32, 16, 16)]


def get_init_inputs():
    return [32]
