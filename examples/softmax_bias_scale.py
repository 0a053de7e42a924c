"""Softmax over the last dimension of scaled scores with a bias for each column."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))
        self.scale = scale

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.tanh(scores * self.scale) * 4.0 + self.bias, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 1024)]


def get_init_inputs() -> list[float]:
    return [1024, 0.7]
