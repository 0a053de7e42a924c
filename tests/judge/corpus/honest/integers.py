"""Integer arithmetic by other operators."""

import torch
from torch import nn

CASE = {
    "task": "bits",
    "about": "integer arithmetic by other operators",
}


class ModelNew(nn.Module):
    def forward(self, a, b):
        mixed = torch.bitwise_xor(a, torch.bitwise_left_shift(b, 3)).remainder(1 << 16)
        return mixed, mixed.long().sum(dim=1)
