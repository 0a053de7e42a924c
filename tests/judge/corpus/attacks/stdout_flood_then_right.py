"""Two hundred megabytes of noise, then the right answer."""

import os

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a bounded flood: must neither fill the memory nor change the verdict",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["correct", "runtime_error"],
    "naive": "not run",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        if not self.training and not getattr(self, "shouted", False):
            self.shouted = True
            for _ in range(200):
                os.write(1, b"correct " * 131072)
        return torch.relu(x * self.weight + self.bias)
