"""An output without elements."""

import torch
from torch import nn

CASE = {
    "task": "empty_part",
    "about": "an output without elements",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.tanh(x), x.new_empty(x.shape[0], 0)
