"""Torch's own operators as the answer, under rules that ask for own kernels."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "library delegation",
    "fools": "right and fast",
    "expect": ["forbidden"],
    "rules": "kernels",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))
