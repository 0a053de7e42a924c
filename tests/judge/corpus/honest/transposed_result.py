"""A result with other strides than the reference's."""

import torch
from torch import nn

CASE = {
    "task": "scale_transpose",
    "about": "a result with other strides than the reference's",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(256))

    def forward(self, x):
        return (x * self.weight).transpose(1, 2)
