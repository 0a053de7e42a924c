"""Linear, addition and four activations: the computation of KernelBench level 2 problem 95 at a reduced size."""

import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.matmul = nn.Linear(inside, outside)
        self.add_value = nn.Parameter(torch.randn(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.matmul(x) + self.add_value
        x = torch.sigmoid(x) * x
        x = F.gelu(torch.tanh(x))
        return F.hardtanh(x, min_val=-1, max_val=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(1024, 64)]


def get_init_inputs() -> list[int]:
    return [64, 1024]
