"""GELU by its tanh formula: the computation of KernelBench level 1 problem 88 at a reduced size."""

import math

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 1024)]


def get_init_inputs() -> list[float]:
    return []
