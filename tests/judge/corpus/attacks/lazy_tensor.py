"""A tensor subclass that computes when it is first read."""

import torch
from torch import nn
from torch.utils._pytree import tree_map

CASE = {
    "task": "linear_gelu",
    "about": "a lazy tensor: whoever reads it does the work, outside the clock",
    "fools": "the comparison itself triggers the computation, after the time has been taken",
    "expect": ["wrong", "forbidden", "runtime_error", "correct"],
    "truth": 1.0,
    "naive_ratio": 3.0,
}


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, thunk, like):
        lazy = torch.Tensor._make_subclass(cls, torch.empty_like(like))
        lazy.thunk, lazy.value = thunk, None
        return lazy

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def force(value):
            if not isinstance(value, Lazy):
                return value
            if value.value is None:
                value.value = value.thunk()
            return value.value

        return function(*tree_map(force, args), **tree_map(force, kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return Lazy(lambda: nn.functional.gelu(self.linear(x)), x)
