"""Variance in two passes with torch."""

from torch import nn

CASE = {
    "task": "row_variance",
    "about": "variance in two passes with torch",
}


class ModelNew(nn.Module):
    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred.square().sum(dim=-1) / (x.shape[-1] - 1)
