"""Returns bfloat16 where float32 is expected."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "wrong dtype: half the bytes to write",
    "fools": "both sides are converted to float before they are compared",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1).bfloat16()
