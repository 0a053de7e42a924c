"""LayerNorm without epsilon: divides zero by zero on constant rows."""

from torch import nn

CASE = {
    "task": "layer_norm",
    "about": "a small term is skipped: epsilon",
    "fools": "no row is constant",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        scale = centred.square().mean(dim=-1, keepdim=True).rsqrt()
        return centred * scale * self.norm.weight + self.norm.bias
