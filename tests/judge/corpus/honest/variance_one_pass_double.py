"""One-pass variance in float64."""

from torch import nn

CASE = {
    "task": "row_variance",
    "about": "one-pass variance in float64",
}


class ModelNew(nn.Module):
    def forward(self, x):
        y, n = x.double(), x.shape[-1]
        y = y - y[:, :1]
        return ((y.square().sum(dim=-1) - y.sum(dim=-1).square() / n) / (n - 1)).float()
