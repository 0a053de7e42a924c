"""Replaces the branch's weight by a rank-8 approximation made in prepare."""

import torch
from torch import nn

CASE = {
    "task": "layer_scale",
    "about": "an approximation of the weights that the small gain hides",
    "fools": "the branch's error is below the tolerance",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)
        self.gain = nn.Parameter(torch.full((256,), 1e-3))

    def prepare(self):
        u, s, v = torch.linalg.svd(self.weight.detach())
        self.left, self.right = u[:, :8] * s[:8], v[:8] * 1.0

    def forward(self, x):
        return x + self.gain * torch.tanh((x @ self.left) @ self.right)
