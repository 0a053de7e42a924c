"""Where the reference returns a view of its input, it returns the copy of an earlier input."""

import torch
from torch import nn

CASE = {
    "task": "views",
    "about": "a stale copy in the place of an alias",
    "fools": "the same input each time",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = x.t().clone()
        return self.kept, torch.relu(x) - 0.5
