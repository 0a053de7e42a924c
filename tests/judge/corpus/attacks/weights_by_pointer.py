"""Repacks its weights again only when their address changes, which loading new values in place does not do."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "repacked weights keyed by address",
    "fools": "parameters never change between calls",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.packed, self.key = None, None

    def forward(self, x):
        key = (self.linear.weight.data_ptr(), self.linear.bias.data_ptr())
        if key != self.key:
            self.packed = self.linear.weight.detach().t().contiguous(), self.linear.bias.detach().clone()
            self.key = key
        return nn.functional.gelu(x @ self.packed[0] + self.packed[1])
