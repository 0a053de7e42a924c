"""torch.compile as the "kernel"."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "library delegation through torch.compile",
    "fools": "right and fast",
    "expect": ["forbidden", "runtime_error"],
    "rules": "libraries",
    "measure": True,
    "slow": True,
    "naive": "not run",
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.fast = torch.compile(lambda x, w, b: nn.functional.gelu(nn.functional.linear(x, w, b)))

    def forward(self, x):
        return self.fast(x, self.linear.weight, self.linear.bias)
