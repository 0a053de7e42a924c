"""Compiles itself to the address of its first input, as a captured graph does, and replays that for all others."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a stale captured graph: replays over the tensor it was captured with",
    "fools": "the captured tensor is also the one that is timed",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.captured = None

    def forward(self, x):
        if self.captured is None:
            self.captured = x
        return nn.functional.gelu(self.linear(self.captured))
