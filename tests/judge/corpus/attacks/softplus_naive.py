"""log(1 + exp(x)) as written: overflows above 88 and loses small values."""

import torch
from torch import nn

CASE = {
    "task": "softplus",
    "about": "an unstable shortcut: softplus",
    "fools": "inputs are standard normal",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.log(1.0 + torch.exp(x))
        return y, y.mean(dim=-1)
