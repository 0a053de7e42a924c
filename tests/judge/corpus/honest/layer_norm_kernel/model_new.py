"""LayerNorm in two passes over a row, a kernel."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "layer_norm",
    "about": "layerNorm in two passes over a row, a kernel",
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/norm.cpp")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        out = torch.empty_like(x)
        k.layer_norm(x, self.norm.weight, self.norm.bias, out, x.shape[0], x.shape[1], self.norm.eps)
        return out
