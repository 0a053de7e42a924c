"""No absolute value, since all inputs are positive."""

import torch
from torch import nn

CASE = {
    "task": "log_abs",
    "about": "the inputs' range is assumed: abs is dropped",
    "fools": "inputs come from rand",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512))

    def forward(self, x):
        return torch.log1p(x) * self.scale
