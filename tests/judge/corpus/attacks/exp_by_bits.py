"""Softmax with Schraudolph's exponential: an integer multiply-add put into the bits of a float; 3 % off."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "a crude approximation of exp",
    "fools": "outputs are small against an absolute tolerance",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        shifted = (x - x.amax(dim=-1, keepdim=True)).clamp(min=-80.0)
        e = (shifted * 12102203.0 + 1064866805.0).to(torch.int32).view(torch.float32)
        return e / e.sum(dim=-1, keepdim=True)
