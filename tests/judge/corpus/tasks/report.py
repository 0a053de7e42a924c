"""A dictionary with tensors, Python numbers, None, a nested list and a nested tuple."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(256))

    def forward(self, x):
        scaled = x * self.scale
        return {
            "scaled": scaled,
            "rows": x.shape[0],
            "total": scaled.double().sum().item(),
            "nothing": None,
            "nested": [scaled.amax(dim=-1), (scaled.amin(dim=-1), scaled > 0)],
        }


def get_inputs():
    return [torch.randn(256, 256)]
