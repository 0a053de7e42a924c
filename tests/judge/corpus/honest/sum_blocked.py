"""A sum in float32 by blocks of 256."""

from torch import nn

CASE = {
    "task": "total",
    "about": "a sum in float32 by blocks of 256",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return (x * x).view(-1, 256).sum(dim=1).sum()
