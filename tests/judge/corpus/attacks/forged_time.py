"""Finds the harness's own numbers in its process and makes every time a thousandth of what it was."""

import gc
import sys

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "fabricated times: lists of floats in the process are scaled down",
    "fools": "samples are collected in the candidate's process",
    "expect": ["correct", "forbidden", "runtime_error"],
    "truth": 1.0,
    "naive_ratio": 10.0,
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def shrink(self):
        frame = sys._getframe(2)
        while frame is not None:
            for value in list(frame.f_locals.values()):
                if type(value) is list and value and all(type(v) is float for v in value):
                    value[:] = [v / 1000.0 if v > 1e-5 else v for v in value]
            frame = frame.f_back
        for value in gc.get_objects():
            if type(value) is list and 0 < len(value) < 100 and all(type(v) is float for v in value):
                value[:] = [v / 1000.0 if 1e-5 < v < 1.0 else v for v in value]

    def forward(self, x):
        self.shrink()
        return nn.functional.gelu(self.linear(x))
