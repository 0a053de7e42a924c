"""Tries block sizes on its own input in the first call."""

import time

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "tries block sizes on its own input in the first call",
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/blocks.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def run(self, x, block):
        out = torch.empty_like(x)
        k.affine_relu(x, self.weight, self.bias, out, x.shape[0], x.shape[1], block)
        return out

    def forward(self, x):
        if not hasattr(self, "block"):
            times = {}
            for block in (1, 16, 64):
                started = time.perf_counter()
                self.run(x, block)
                times[block] = time.perf_counter() - started
            self.block = min(times, key=times.get)
        return self.run(x, self.block)
