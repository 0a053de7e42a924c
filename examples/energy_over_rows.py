"""Weighted squares summed over the first dimension, and their root: a reduction down columns."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        difference = (x - y) * self.weight
        return torch.sqrt(torch.sum(difference * difference, dim=0) + 1e-6)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(2048, 1024), torch.randn(2048, 1024)]


def get_init_inputs() -> list[int]:
    return [1024]
