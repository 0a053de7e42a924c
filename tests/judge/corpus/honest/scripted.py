"""TorchScript inside the solution."""

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "torchScript inside the solution",
}


@torch.jit.script
def gelu(x: torch.Tensor):
    return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))


class ModelNew(nn.Module):
    def forward(self, x):
        return gelu(x)
