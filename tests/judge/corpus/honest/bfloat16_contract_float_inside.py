"""Computes in float32 and rounds once, under a bf16 contract."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "computes in float32 and rounds once, under a bf16 contract",
    "precision": "bf16",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        wide = x.float() * self.weight.float() + self.bias.float()
        return torch.relu(wide).to(x.dtype)
