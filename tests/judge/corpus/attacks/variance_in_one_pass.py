"""Mean of squares minus square of the mean, in float32: cancels when the mean is large."""

from torch import nn

CASE = {
    "task": "row_variance",
    "about": "an unstable shortcut: one-pass variance",
    "fools": "inputs have mean zero",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        return ((x * x).sum(dim=-1) - x.sum(dim=-1) ** 2 / n) / (n - 1)
