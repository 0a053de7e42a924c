"""Reads everything but the running variance."""

from torch import nn

CASE = {
    "task": "batch_norm",
    "about": "one default buffer ignored",
    "fools": "the running variance is one at first",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n = self.norm
        shift = n.bias - n.running_mean * n.weight
        return x * n.weight[:, None, None] + shift[:, None, None]
