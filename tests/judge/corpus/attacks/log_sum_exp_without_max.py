"""logsumexp without subtracting the maximum."""

import torch
from torch import nn

CASE = {
    "task": "log_sum_exp",
    "about": "an unstable shortcut: logsumexp without the maximum",
    "fools": "inputs are standard normal",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.exp(x).sum(dim=-1).log()
