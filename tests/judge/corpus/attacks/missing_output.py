"""Leaves out the last two of four results."""

from torch import nn

CASE = {
    "task": "moments",
    "about": "missing outputs",
    "fools": "zip stops at the shorter side",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x.mean(dim=-1), x.var(dim=-1)
