"""A detached C++ thread goes on after the call has returned, from the fourth call on."""

import atexit
import time

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "thread injection below Python: threading.active_count sees nothing",
    "fools": "the clock stops at return, and outputs of timed calls are not compared",
    "expect": ["wrong", "forbidden"],
    "measure": True,
}
k = load_kernels("kernels/late.cpp")
KEPT = []
atexit.register(time.sleep, 0.2)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        out = torch.empty_like(x)
        k.affine_relu(x, self.weight, self.bias, out, x.shape[0], x.shape[1], int(self.calls > 3))
        KEPT[:] = [*KEPT[-40:], (x, out)]
        return out
