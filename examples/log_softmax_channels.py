"""Log-softmax over the channels of images after a temperature for each channel."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.rand(channels, 1, 1) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(x / self.temperature, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 32, 64, 64)]


def get_init_inputs() -> list[int]:
    return [32]
