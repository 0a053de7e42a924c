"""Right values under a wrong key, and an integer where a float was."""

import torch
from torch import nn

CASE = {
    "task": "report",
    "about": "wrong keys and types in a dictionary",
    "fools": "values are compared in order, keys are not",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        s = x * self.scale
        return {
            "values": s,
            "rows": float(x.shape[0]),
            "total": s.double().sum().item(),
            "nothing": None,
            "nested": [s.amax(dim=-1), (s.amin(dim=-1), s > 0)],
        }
