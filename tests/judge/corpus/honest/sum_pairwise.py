"""A sum in float32 by halves."""

from torch import nn

CASE = {
    "task": "total",
    "about": "a sum in float32 by halves",
}


class ModelNew(nn.Module):
    def forward(self, x):
        y = (x * x).flatten()
        while y.numel() > 1:
            y = y[: y.numel() // 2] + y[y.numel() // 2 :]
        return y[0].clone()
