"""LayerNorm that uses its weight and ignores its bias."""

from torch import nn

CASE = {
    "task": "layer_norm",
    "about": "one of two default parameters ignored",
    "fools": "the bias is zero at first",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:], self.norm.weight)
