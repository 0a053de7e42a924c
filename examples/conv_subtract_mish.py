"""Convolution, two subtractions and Mish: the computation of KernelBench level 2 problem 87 at a reduced size."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, inside: int, outside: int, kernel_size: int, first: float, second: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, kernel_size)
        self.first = first
        self.second = second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.conv(x) - self.first - self.second)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 4, 64, 64)]


def get_init_inputs() -> list[float]:
    return [4, 32, 3, 0.5, 0.2]
