"""A folder with a second Python module that model_new.py imports."""

import torch
from helpers import scaled_gelu
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "several Python files",
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return scaled_gelu(torch.addmm(self.linear.bias, x, self.linear.weight.t()))
