"""Repacks its weights only when their first row changes: a change of a single element elsewhere goes unseen."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "repacked weights keyed by a fingerprint of one row",
    "fools": "parameters never change between calls",
    "expect": ["wrong", "correct"],
    "truth": 1.0,
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.packed, self.key = None, None

    def forward(self, x):
        key = self.linear.weight[0].sum().item()
        if key != self.key:
            self.packed = self.linear.weight.detach().t().contiguous(), self.linear.bias.detach().clone()
            self.key = key
        return nn.functional.gelu(x @ self.packed[0] + self.packed[1])
