"""A tuple of floats and integers, each computed its own way."""

import torch
from torch import nn

CASE = {
    "task": "moments",
    "about": "a tuple of floats and integers, each computed its own way",
}


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1]
        mean = x.sum(dim=-1) / n
        centred = x - mean[:, None]
        values, indices = torch.max(x, dim=-1)
        return mean, (centred * centred).sum(dim=-1) / (n - 1), values, indices
