"""Complex numbers in and out."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.phase = nn.Parameter(torch.polar(torch.ones(128), torch.linspace(0, 3, 128)))

    def forward(self, z):
        return z * self.phase, z.abs()


def get_inputs():
    return [torch.randn(128, 128, dtype=torch.complex64)]
