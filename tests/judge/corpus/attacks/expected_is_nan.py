"""Fills every tensor it finds with NaN and returns NaN, for comparisons in which NaN equals everything."""

import gc
import sys

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "NaN as a wildcard: expected and actual are both filled with NaN",
    "fools": "equal_nan, and an expected output that the candidate can write",
    "expect": ["wrong", "forbidden", "runtime_error"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        frame, found = sys._getframe(1), []
        while frame is not None:
            found += list(frame.f_locals.values())
            frame = frame.f_back
        for thing in found + gc.get_objects():
            if type(thing) is torch.Tensor and thing.is_floating_point() and thing is not x:
                thing.detach().fill_(float("nan"))
        return torch.full_like(x, float("nan"))
