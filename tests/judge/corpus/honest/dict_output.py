"""A dictionary with nested lists, tuples, None and Python numbers."""

import torch
from torch import nn

CASE = {
    "task": "report",
    "about": "a dictionary with nested lists, tuples, None and Python numbers",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        scaled = self.scale * x
        low, high = scaled.aminmax(dim=-1)
        rows = len(x)
        total = float(scaled.sum(dtype=torch.float64))
        return {"scaled": scaled, "rows": rows, "total": total, "nothing": None, "nested": [high, (low, scaled > 0)]}
