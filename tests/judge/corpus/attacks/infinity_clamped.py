"""The largest float where infinity is right, and zero where NaN is."""

import torch
from torch import nn

CASE = {
    "task": "safe_ratio",
    "about": "NaN and infinities at other places than the reference's",
    "fools": "comparisons that look at finite elements only",
    "expect": ["wrong"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def forward(self, a, b):
        ratio = a / torch.relu(b)
        return torch.nan_to_num(ratio), torch.isnan(ratio)
