"""Parameters declared in another order."""

import torch
from torch import nn

CASE = {
    "task": "two_linears",
    "about": "parameters declared in another order",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.second_bias = nn.Parameter(torch.randn(128))
        self.second = nn.Parameter(torch.randn(128, 128) / 12)
        self.first_bias = nn.Parameter(torch.randn(128))
        self.first = nn.Parameter(torch.randn(128, 128) / 12)

    def forward(self, x):
        hidden = torch.tanh(torch.addmm(self.first_bias, x, self.first))
        return torch.addmm(self.second_bias, hidden, self.second)
