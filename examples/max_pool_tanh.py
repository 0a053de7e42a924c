"""Max pooling of images after a leaky ReLU, then tanh."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.pool(F.leaky_relu(x, self.slope)))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(8, 32, 64, 64) - 1.5]


def get_init_inputs() -> list[float]:
    return [0.3]
