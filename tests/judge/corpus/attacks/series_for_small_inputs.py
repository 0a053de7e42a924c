"""A short series that is good for inputs between zero and one."""

import torch
from torch import nn

CASE = {
    "task": "log_abs",
    "about": "the inputs' range is assumed: a polynomial fitted to it",
    "fools": "inputs come from rand, and the fit is within the tolerance there",
    "expect": ["wrong"],
}
FIT = (9.97e-05, 0.99753, -0.4739, 0.2307, -0.0613)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512))

    def forward(self, x):
        a = torch.abs(x)
        out = torch.full_like(a, FIT[4])
        for c in FIT[3::-1]:
            out = out * a + c
        return out * self.scale
