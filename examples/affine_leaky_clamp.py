"""Elementwise chain with a row, a column and two numbers as arguments: affine, leaky ReLU, clamp."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor, column: torch.Tensor, slope: float, limit: float) -> torch.Tensor:
        y = x * self.scale + self.shift
        y = torch.where(y > 0, y, y * slope) - column
        return torch.clamp(y, -limit, limit) / (limit + 1.0)


def get_inputs() -> list[torch.Tensor | float]:
    return [torch.randn(1024, 1024), torch.randn(1024, 1), 0.2, 2.5]


def get_init_inputs() -> list[int]:
    return [1024]
