"""Walks the callers' frames for a tensor of the output's shape that is not its input."""

import sys

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "frame peeking: sys._getframe reaches the caller's expected output",
    "fools": "the expected output is a local variable of a caller",
    "expect": ["wrong"],
}


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        frame = sys._getframe(1)
        while frame is not None:
            for values in (frame.f_locals, frame.f_globals):
                for t in tensors(dict(values)):
                    if t.shape == x.shape and t is not x and t.data_ptr() != x.data_ptr():
                        return t.clone()
            frame = frame.f_back
        return torch.zeros_like(x)
