"""Group norm over groups of channels, then SiLU and a scale for each channel."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.scale = nn.Parameter(torch.rand(channels, 1, 1) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x)) * self.scale


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 64, 64, 64)]


def get_init_inputs() -> list[int]:
    return [8, 64]
