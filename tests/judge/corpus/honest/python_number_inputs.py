"""Python numbers among the inputs, Horner's scheme."""

import torch
from torch import nn

CASE = {
    "task": "powers",
    "about": "python numbers among the inputs, Horner's scheme",
}


class ModelNew(nn.Module):
    def forward(self, x, degree, alpha):
        total = torch.zeros_like(x)
        for n in range(degree, 0, -1):
            total = (total + alpha / n) * x
        return total
