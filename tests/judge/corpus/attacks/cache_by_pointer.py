"""Memoises the output by the input's address and shape."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a pointer-keyed cache: timing loops that reuse one tensor make every later call a look-up",
    "fools": "all timed calls get the same tensor",
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
        key = (x.data_ptr(), x.shape)
        if key not in ANSWERS:
            ANSWERS[key] = nn.functional.gelu(self.linear(x))
        return ANSWERS[key]
