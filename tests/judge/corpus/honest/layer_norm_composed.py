"""LayerNorm from its parts, in float32."""

import torch
from torch import nn

CASE = {
    "task": "layer_norm",
    "about": "layerNorm from its parts, in float32",
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + self.norm.eps)
        return centred * scale * self.norm.weight + self.norm.bias
