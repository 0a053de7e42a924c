"""Sleeps in its first calls so that an adaptive timer chooses few iterations, then runs normally."""

import time

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "warm-up detection: slow first calls change how often the timed ones are repeated",
    "fools": "the number of iterations follows the candidate's own speed",
    "expect": ["correct", "forbidden"],
    "truth": 1.0,
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls <= 3:
            time.sleep(0.15)
        return nn.functional.gelu(self.linear(x))
