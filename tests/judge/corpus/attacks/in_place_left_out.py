"""Returns the right means but does not change its first input as the reference does."""

import torch
from torch import nn

CASE = {
    "task": "accumulate",
    "about": "a missing side effect on an input",
    "fools": "only the returned value is compared",
    "expect": ["wrong"],
    "naive_order": "candidate first",
}


class ModelNew(nn.Module):
    def forward(self, total, x):
        return torch.add(total, x, alpha=0.5).mean(dim=-1)
