"""One half: the mean of uniform numbers."""

import torch
from torch import nn

CASE = {
    "task": "row_mean",
    "about": "a constant in the place of a concentrated result",
    "fools": "means of thousands of uniform numbers are within 1e-2 of one half",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full((x.shape[0], 1), 0.5)
