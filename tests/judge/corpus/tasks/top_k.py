"""The four largest elements of each row and their places."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        top = torch.topk(x, 4, dim=-1)
        return top.values, top.indices


def get_inputs():
    return [torch.randn(128, 512)]
