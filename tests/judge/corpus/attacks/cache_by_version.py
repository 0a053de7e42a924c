"""Memoises the output by the input object and its version counter, which writes through other views do not move."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a cache keyed by identity and version counter; writes from outside the process bump no counter",
    "fools": "all timed calls get the same unchanged tensor",
    "expect": ["wrong", "correct"],
    "truth": 1.0,
    "naive_ratio": 3.0,
}
ANSWERS = {}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        key = (id(x), x._version)
        if key not in ANSWERS:
            ANSWERS[key] = (x, nn.functional.gelu(self.linear(x)))
        return ANSWERS[key][1].clone()
