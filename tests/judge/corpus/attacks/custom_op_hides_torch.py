"""Registers an operator of its own whose body is torch's."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "library delegation behind a custom operator's name",
    "fools": "a list of forbidden names does not know this one",
    "expect": ["forbidden"],
    "rules": "kernels",
    "measure": True,
}


@torch.library.custom_op("corpus::fused", mutates_args=())
def fused(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(x * w + b)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return torch.ops.corpus.fused(x, self.weight, self.bias)
