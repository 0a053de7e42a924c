"""Root-mean-square norm over the last dimension with a learned gain, then GELU."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return F.gelu(x * scale * self.weight)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 2048)]


def get_init_inputs() -> list[float]:
    return [2048, 1e-5]
