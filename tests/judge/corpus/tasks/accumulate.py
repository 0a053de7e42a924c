"""Adds into its first input and returns the means of the result's rows."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, total, x):
        total.add_(x, alpha=0.5)
        return total.mean(dim=-1)


def get_inputs():
    return [torch.randn(256, 512), torch.randn(256, 512)]
