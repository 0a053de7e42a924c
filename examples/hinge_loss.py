"""Hinge loss of scores and signs: the computation of KernelBench level 1 problem 100 at a reduced size."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean(torch.clamp(1 - predictions * targets, min=0))


def get_inputs() -> list[torch.Tensor]:
    scale = torch.rand(()) + 0.5
    return [torch.rand(8192, 256) * scale, torch.randint(0, 2, (256,)).float() * 2 - 1]


def get_init_inputs() -> list[int]:
    return []
