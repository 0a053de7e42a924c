"""Linear, scale, clamp, log-sum-exp, Mish: the computation of KernelBench level 2 problem 22 at a reduced size."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, inside: int, hidden: int, factor: float, low: float, high: float) -> None:
        super().__init__()
        self.matmul = nn.Linear(inside, hidden)
        self.factor = factor
        self.low = low
        self.high = high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x) * self.factor
        x = torch.clamp(x + x, self.low, self.high)
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return x * F.mish(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 64)]


def get_init_inputs() -> list[float]:
    return [64, 1024, 2.0, -10.0, 10.0]
