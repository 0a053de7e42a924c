"""Ten times slower than the reference, and right."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "ten times slower than the reference, and right",
    "measure": True,
    "ratio_below": 0.5,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        for _ in range(30):
            out = torch.relu(torch.addcmul(self.bias, x, self.weight))
        return out
