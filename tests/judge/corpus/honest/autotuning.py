"""Times two variants in its first call and keeps the faster one."""

import time

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "times two variants in its first call and keeps the faster one",
    "measure": True,
    "truth": 1.0,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def by_linear(self, x):
        return nn.functional.gelu(self.linear(x))

    def by_addmm(self, x):
        return nn.functional.gelu(torch.addmm(self.linear.bias, x, self.linear.weight.t()))

    def forward(self, x):
        if not hasattr(self, "best"):
            times = {}
            for variant in (self.by_linear, self.by_addmm):
                started = time.perf_counter()
                for _ in range(3):
                    variant(x)
                times[variant] = time.perf_counter() - started
            self.best = min(times, key=times.get)
        return self.best(x)
