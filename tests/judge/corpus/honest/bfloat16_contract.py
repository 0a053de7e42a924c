"""bfloat16 under a bf16 contract."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "bfloat16 under a bf16 contract",
    "precision": "bf16",
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return nn.functional.gelu(torch.addmm(self.linear.bias, x, self.linear.weight.t()))
