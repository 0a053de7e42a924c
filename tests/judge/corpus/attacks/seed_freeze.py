"""Freezes the random numbers, so that all "random" trials are one, and remembers the answer to that."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "seed freeze: torch.manual_seed and the generators always give the same numbers",
    "fools": "inputs are made in the candidate's process",
    "expect": ["wrong"],
    "naive_ratio": 1.5,
}
seed, randn, rand = torch.manual_seed, torch.randn, torch.rand


def frozen(function):
    def same(*args, **kwargs):
        seed(0)
        return function(*args, **kwargs)

    return same


torch.manual_seed = lambda value: seed(0)
torch.randn, torch.rand = frozen(randn), frozen(rand)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.answer = None

    def forward(self, x):
        if self.answer is None:
            self.answer = nn.functional.gelu(self.linear(x))
        return self.answer.clone()
