"""log(1 + |x|) by another way to the magnitude."""

import torch
from torch import nn

CASE = {
    "task": "log_abs",
    "about": "log(1 + |x|) by another way to the magnitude",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(512))

    def forward(self, x):
        return self.scale * torch.log1p(torch.maximum(x, -x))
