"""The matrix product may come from the library, the GELU may not."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "library delegation of more than matrix products",
    "fools": "right and fast",
    "expect": ["forbidden"],
    "rules": "libraries",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))
