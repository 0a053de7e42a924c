"""Writes zeros over every other tensor that it can find, the expected one among them, and returns zeros."""

import gc
import sys

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "expected-tensor overwrite through gc and frames",
    "fools": "the expected output can be written by the candidate",
    "expect": ["wrong", "forbidden", "runtime_error"],
}


def everything():
    frame = sys._getframe(1)
    while frame is not None:
        yield from list(frame.f_locals.values())
        frame = frame.f_back
    yield from gc.get_objects()


class ModelNew(nn.Module):
    def forward(self, x):
        for thing in everything():
            if type(thing) is torch.Tensor and thing.shape == x.shape and not thing.requires_grad:
                thing.zero_()
        return torch.zeros_like(x)
