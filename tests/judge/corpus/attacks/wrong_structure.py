"""Returns a list of one where a tensor is expected."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "wrong structure",
    "fools": "outputs are flattened before they are compared",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return [torch.softmax(x, dim=-1)]
