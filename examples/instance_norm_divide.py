"""Instance norm of images with a learned scale and shift, softplus and a division."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, channels: int, divisor: float) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=True)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softplus(self.norm(x)) / self.divisor


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 32, 64, 64)]


def get_init_inputs() -> list[float]:
    return [32, 2.0]
