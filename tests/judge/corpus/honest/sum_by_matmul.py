"""Means as matrix products with a vector of ones."""

import torch
from torch import nn

CASE = {
    "task": "long_rows",
    "about": "means as matrix products with a vector of ones",
}


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        return x @ torch.full((columns,), 1.0 / columns), torch.full((rows,), 1.0 / rows) @ x
