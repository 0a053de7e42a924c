"""Quotients with infinities and NaN among them, and where they are."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        ratio = a / torch.relu(b)
        return ratio, torch.isnan(ratio)


def get_inputs():
    return [torch.randint(-3, 4, (256, 256)).float(), torch.randn(256, 256)]
