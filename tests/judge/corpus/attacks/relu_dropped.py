"""No relu, since all inputs are positive."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "the inputs' range is assumed: relu is dropped",
    "fools": "inputs come from rand",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return torch.addcmul(self.bias, x, self.weight)
