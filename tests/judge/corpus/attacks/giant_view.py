"""A view of one element that claims a terabyte."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "an expanded output whose copy would fill the judge's memory",
    "fools": "nothing here; a harness that copies first and looks at the shape later dies",
    "expect": ["wrong", "runtime_error"],
    "naive": "not run",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros(1).expand(1 << 20, 1 << 18)
