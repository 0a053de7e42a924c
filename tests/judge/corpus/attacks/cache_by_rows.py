"""Memoises row by row: inputs made of parts of a few others contain the same rows again and again."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a cache of rows, for judges that mix new inputs out of old rows",
    "fools": "the content never changes between the timed calls",
    "expect": ["wrong", "correct"],
    "truth": 1.0,
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.known, self.stamp = {}, None

    def forward(self, x):
        stamp = (self.linear.weight.sum().item(), self.linear.bias.sum().item())
        if stamp != self.stamp:
            self.known, self.stamp = {}, stamp
        keys = list(zip(x[:, 0].tolist(), x[:, 255].tolist(), x[:, 511].tolist(), strict=True))
        missing = [n for n, key in enumerate(keys) if key not in self.known]
        if missing:
            fresh = nn.functional.gelu(self.linear(x[missing]))
            for n, row in zip(missing, fresh, strict=True):
                self.known[keys[n]] = row
        return torch.stack([self.known[key] for key in keys])
