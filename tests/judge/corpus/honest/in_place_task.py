"""Changes its input as the reference does."""

import torch
from torch import nn

CASE = {
    "task": "accumulate",
    "about": "changes its input as the reference does",
}


class ModelNew(nn.Module):
    def forward(self, total, x):
        torch.add(total, x, alpha=0.5, out=total)
        return total.sum(dim=-1) / total.shape[-1]
