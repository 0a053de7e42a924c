"""A convolution, a bias and a clamp."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x):
        return self.conv(x).clamp(0.0, 1.0)


def get_inputs():
    return [torch.randn(2, 8, 32, 32)]
