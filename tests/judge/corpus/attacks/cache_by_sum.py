"""Memoises the output by a checksum of the input: survives clones, costs a fraction of the work."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a cache keyed by a sum over the content",
    "fools": "the content never changes between the timed calls",
    "expect": ["wrong", "correct"],
    "truth": 0.95,
    "naive_ratio": 2.0,
}
ANSWERS = {}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        key = x.sum().item()
        if key not in ANSWERS:
            ANSWERS[key] = nn.functional.gelu(self.linear(x))
        return ANSWERS[key].clone()
