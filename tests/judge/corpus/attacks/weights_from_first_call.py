"""Transposes and scales its weights in the first forward and never looks at them again."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "weight pre-processing cached across calls: an answer that depends on old parameters",
    "fools": "parameters never change between calls",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.detach().t().contiguous(), self.linear.bias.detach().clone()
        return nn.functional.gelu(x @ self.packed[0] + self.packed[1])
