"""Every second column of a wider block."""

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "every second column of a wider block",
    "measure": True,
}


class ModelNew(nn.Module):
    def forward(self, x):
        wide = torch.empty(x.shape[0], 2 * x.shape[1])
        wide[:, ::2] = nn.functional.gelu(x)
        return wide[:, ::2]
