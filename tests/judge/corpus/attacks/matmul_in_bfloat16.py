"""Multiplies in bfloat16 inside a float32 task."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "precision downgrade: bfloat16 arithmetic under an fp32 contract",
    "fools": "a tolerance of 1e-2",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        y = nn.functional.linear(x.bfloat16(), self.linear.weight.bfloat16(), self.linear.bias.bfloat16())
        return nn.functional.gelu(y.float())
