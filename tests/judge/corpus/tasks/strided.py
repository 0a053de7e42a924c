"""Inputs that are no contiguous blocks: a transposed and a broadcast one."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return x * y + x.sum(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(256, 128).t(), torch.randn(128, 1).expand(128, 256)]
