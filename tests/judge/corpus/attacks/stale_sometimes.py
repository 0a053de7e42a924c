"""After forty right calls every second answer, chosen at random, is the one of the call before."""

import random

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "stale at random: hides among timed calls of which only a few are checked",
    "fools": "outputs of timed calls are not compared",
    "expect": ["wrong"],
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls > 40 and random.random() < 0.5:
            return self.last.clone()
        self.last = nn.functional.gelu(self.linear(x))
        return self.last.clone()
