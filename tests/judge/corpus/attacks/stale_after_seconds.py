"""Right for half a second after its first call, then stale: goes by the clock instead of a count."""

import time

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "correct, then stale, by elapsed time",
    "fools": "outputs of timed calls are not compared",
    "expect": ["wrong"],
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.started, self.last = 0.0, None

    def forward(self, x):
        self.started = self.started or time.monotonic()
        if self.last is None or time.monotonic() - self.started < 0.5:
            self.last = nn.functional.gelu(self.linear(x))
        return self.last.clone()
