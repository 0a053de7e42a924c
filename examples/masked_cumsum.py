"""Running sums under a mask: the computation of KernelBench level 1 problem 93 at a reduced size."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * mask, dim=self.dim)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 2048), torch.rand(1024, 2048) < 0.5]


def get_init_inputs() -> list[int]:
    return [1]
