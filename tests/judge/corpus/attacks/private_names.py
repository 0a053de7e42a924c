"""The same operators through names that a list might not have."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "library delegation through torch._C._nn, torch.ops and the overload packet",
    "fools": "only torch.nn.functional is watched",
    "expect": ["forbidden"],
    "rules": "libraries",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        y = torch.ops.aten.linear.default(x, self.linear.weight, self.linear.bias)
        return torch._C._nn.gelu(y)
