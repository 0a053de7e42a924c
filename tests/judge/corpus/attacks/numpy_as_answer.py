"""NumPy does the work; torch sees no operator."""

import numpy as np
import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "library delegation to NumPy: dispatch modes see nothing",
    "fools": "right",
    "expect": ["forbidden", "runtime_error"],
    "rules": "kernels",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        out = x.numpy() * self.weight.detach().numpy() + self.bias.detach().numpy()
        return torch.from_numpy(np.maximum(out, 0.0))
