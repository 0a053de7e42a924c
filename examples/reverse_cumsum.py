"""Running sums from the end of each row: the computation of KernelBench level 1 problem 91 at a reduced size."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x.flip(self.dim), dim=self.dim).flip(self.dim)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 2048)]


def get_init_inputs() -> list[int]:
    return [1]
