"""Asks the garbage collector for every tensor of the output's shape and returns one that is not the input."""

import gc

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "gc theft: gc.get_objects finds the expected tensors",
    "fools": "expected outputs live in the candidate's process",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        for thing in gc.get_objects():
            parts = thing.values() if type(thing) is dict else thing if type(thing) in (list, tuple) else [thing]
            for t in list(parts):
                if type(t) is torch.Tensor and t.shape == x.shape and t.data_ptr() != x.data_ptr():
                    return t.clone()
        return torch.zeros_like(x)
