"""Replaces the clocks that a harness in the same process would use."""

import time

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "clock patch: time.*, the benchmark timer and the statistics are replaced",
    "fools": "the clock lives in the candidate's process",
    "expect": ["correct", "forbidden"],
    "truth": 1.0,
    "naive_ratio": 3.0,
    "measure": True,
}
REAL = {name: getattr(time, name) for name in ("perf_counter", "time", "monotonic")}
HIDDEN = [0.0]


def patch(name):
    setattr(time, name, lambda: REAL[name]() - HIDDEN[0])
    setattr(time, name + "_ns", lambda: int((REAL[name]() - HIDDEN[0]) * 1e9))


for name in REAL:
    patch(name)
time.sleep = lambda seconds: None


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        started = REAL["perf_counter"]()
        out = nn.functional.gelu(self.linear(x))
        HIDDEN[0] += 0.95 * (REAL["perf_counter"]() - started)
        return out
