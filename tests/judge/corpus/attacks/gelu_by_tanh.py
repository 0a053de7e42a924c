"""The tanh approximation of GELU."""

from torch import nn

CASE = {
    "task": "gelu",
    "about": "another function: tanh GELU for erf GELU differs by up to 5e-4",
    "fools": "a tolerance of 1e-2",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh")
