"""Two layers whose parameters have the same shapes."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(128, 128) / 12)
        self.first_bias = nn.Parameter(torch.randn(128))
        self.second = nn.Parameter(torch.randn(128, 128) / 12)
        self.second_bias = nn.Parameter(torch.randn(128))

    def forward(self, x):
        return torch.tanh(x @ self.first + self.first_bias) @ self.second + self.second_bias


def get_inputs():
    return [torch.randn(128, 128)]
