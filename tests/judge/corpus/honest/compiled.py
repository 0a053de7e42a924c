"""torch.compile inside the solution."""

import torch
from torch import nn

CASE = {
    "task": "softplus",
    "about": "torch.compile inside the solution",
    "slow": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.fast = torch.compile(lambda x: nn.functional.softplus(x))

    def forward(self, x):
        y = self.fast(x)
        return y, y.mean(dim=-1)
