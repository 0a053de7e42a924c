"""A lazily negated result: right values behind torch's negative bit."""

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "a lazily negated result: right values behind torch's negative bit",
}


class ModelNew(nn.Module):
    def forward(self, x):
        negative = -nn.functional.gelu(x)
        return torch._neg_view(negative)
