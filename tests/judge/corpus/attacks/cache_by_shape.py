"""Computes once per shape and returns copies of that ever after."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a shape-keyed cache: the first call does the work of all",
    "fools": "correctness is looked at once, on the content that is timed",
    "expect": ["wrong"],
    "naive_ratio": 3.0,
}
ANSWERS = {}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        if x.shape not in ANSWERS:
            ANSWERS[x.shape] = nn.functional.gelu(self.linear(x))
        return ANSWERS[x.shape].clone()
