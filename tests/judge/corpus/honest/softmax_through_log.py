"""exp of log_softmax: other rounding, as stable."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "exp of log_softmax: other rounding, as stable",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, dim=-1).exp()
