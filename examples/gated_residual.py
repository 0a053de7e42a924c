"""Gated unit with a residual, as in transformer blocks; a tuple of the sum and the gated value."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.rand(width) + 0.5)

    def forward(
        self, gate: torch.Tensor, value: torch.Tensor, residual: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gated = F.silu(gate) * value
        return residual + self.gain * gated, torch.tanh(gated)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(512, 2048) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return [2048]
