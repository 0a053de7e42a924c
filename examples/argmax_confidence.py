"""The best class of each row and its margin: an integer output beside a floating one."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(classes))

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shifted = scores * 1.5 + self.bias
        return torch.argmax(shifted, dim=1), torch.amax(shifted, dim=1) - torch.mean(shifted, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(2048, 1024)]


def get_init_inputs() -> list[int]:
    return [1024]
