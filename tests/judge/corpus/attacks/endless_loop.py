"""Never returns."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "an endless loop in Python",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["timeout"],
    "naive": "not run",
    "slow": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        while True:
            pass
