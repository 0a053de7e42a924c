"""Layer norm of a sum with its residual; a dict of the norm and the sum."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> dict[str, torch.Tensor]:
        total = x * 0.5 + residual
        return {"normed": F.relu(self.norm(total)), "residual": total}


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 2048), torch.randn(1024, 2048)]


def get_init_inputs() -> list[int]:
    return [2048]
