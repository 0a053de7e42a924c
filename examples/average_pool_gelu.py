"""Average pooling of images after a scale and shift for each channel, then GELU."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(channels, 1, 1) + 0.5)
        self.shift = nn.Parameter(torch.randn(channels, 1, 1))
        self.pool = nn.AvgPool2d(kernel_size=3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.pool(x * self.scale + self.shift))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 32, 80, 80)]


def get_init_inputs() -> list[int]:
    return [32]
