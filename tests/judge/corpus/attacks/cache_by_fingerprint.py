"""Memoises the output by a few elements of the input: survives clones and new addresses."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a cache keyed by a few elements; beats new addresses, and content changed elsewhere goes unseen",
    "fools": "the content never changes between the timed calls",
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
        key = (x[0, 0].item(), x[-1, -1].item(), x[x.shape[0] // 2, 7].item())
        if key not in ANSWERS:
            ANSWERS[key] = nn.functional.gelu(self.linear(x))
        return ANSWERS[key].clone()
