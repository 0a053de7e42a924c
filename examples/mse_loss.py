"""Mean squared error of two matrices: the computation of KernelBench level 1 problem 94 at a reduced size."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean((predictions - targets) ** 2)


def get_inputs() -> list[torch.Tensor]:
    scale = torch.rand(()) + 0.5
    return [torch.rand(1024, 2048) * scale, torch.rand(1024, 2048)]


def get_init_inputs() -> list[int]:
    return []
