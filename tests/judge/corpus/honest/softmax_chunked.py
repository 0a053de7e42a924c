"""Wide rows in chunks, sums rescaled between them."""

import torch
from torch import nn

CASE = {
    "task": "softmax_wide",
    "about": "wide rows in chunks, sums rescaled between them",
}


class ModelNew(nn.Module):
    def forward(self, x):
        parts = x.split(4096, dim=-1)
        tops = torch.stack([part.amax(dim=-1) for part in parts])
        top = tops.amax(dim=0)
        sums = sum((part - top[:, None]).exp().sum(dim=-1) for part in parts)
        return torch.cat([(part - top[:, None]).exp() / sums[:, None] for part in parts], dim=-1)
