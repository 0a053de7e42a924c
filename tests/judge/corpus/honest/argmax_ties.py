"""The first of equal largest elements, found by an equality and a minimum."""

import torch
from torch import nn

CASE = {
    "task": "argmax",
    "about": "the first of equal largest elements, found by an equality and a minimum",
}


class ModelNew(nn.Module):
    def forward(self, x):
        columns = x.shape[-1]
        places = torch.arange(columns).where(x == x.amax(dim=-1, keepdim=True), columns)
        return places.amin(dim=-1)
