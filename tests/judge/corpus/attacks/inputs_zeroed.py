"""Zeroes its inputs and returns zeros: right, if the reference gets the same tensors afterwards."""

import torch
from torch import nn

CASE = {
    "task": "log_abs",
    "about": "input mutation",
    "fools": "the candidate runs first, on the tensors that the reference gets next",
    "expect": ["wrong", "forbidden"],
    "naive_order": "candidate first",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512))

    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
