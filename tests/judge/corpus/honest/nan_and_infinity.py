"""NaN and infinities where the reference has them."""

import torch
from torch import nn

CASE = {
    "task": "safe_ratio",
    "about": "naN and infinities where the reference has them",
}


class ModelNew(nn.Module):
    def forward(self, a, b):
        ratio = torch.div(a, b.clamp(min=0))
        return ratio, ratio != ratio
