"""Quantises weights and inputs to eight bits."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "precision downgrade: int8 weights under an fp32 contract",
    "fools": "a tolerance of 1e-2 with outputs below one",
    "expect": ["wrong"],
    "naive": "not run",
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        w = self.linear.weight
        scale = w.abs().amax(dim=1, keepdim=True) / 127.0
        w8 = (w / scale).round().clamp(-127, 127)
        return nn.functional.gelu(x @ (w8 * scale).t() + self.linear.bias)
