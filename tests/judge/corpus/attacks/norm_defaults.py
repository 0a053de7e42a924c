"""LayerNorm without its affine parameters, which are one and zero at first."""

from torch import nn

CASE = {
    "task": "layer_norm",
    "about": "default parameters ignored: LayerNorm's weight and bias",
    "fools": "parameters have their initial values",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:])
