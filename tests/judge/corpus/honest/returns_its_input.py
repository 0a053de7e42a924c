"""Changes its input in place and returns it, as the reference does."""

import torch
from torch import nn

CASE = {
    "task": "relu_in_place",
    "about": "changes its input in place and returns it, as the reference does",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512))

    def forward(self, x):
        torch.mul(x, self.scale, out=x)
        return x.clamp_(min=0)
