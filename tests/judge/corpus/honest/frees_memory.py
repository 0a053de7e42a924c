"""Runs the garbage collector and drops large temporaries."""

import gc

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "runs the garbage collector and drops large temporaries",
}


class ModelNew(nn.Module):
    def forward(self, x):
        temporary = [torch.erf(x * 0.5**0.5) for _ in range(4)]
        out = 0.5 * x * (1.0 + temporary[-1])
        del temporary
        gc.collect()
        return out
