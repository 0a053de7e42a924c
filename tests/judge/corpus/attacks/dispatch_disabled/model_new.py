"""Hides its operators from dispatch modes."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "torch._C._DisableTorchDispatch hides calls from a Python dispatch mode",
    "fools": "right, and a kernel of its own is there",
    "expect": ["forbidden"],
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/affine.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def kernel(self, x):
        out = torch.empty_like(x)
        k.affine_relu(x, self.weight, self.bias, out, x.shape[0], x.shape[1])
        return out

    def forward(self, x):
        self.kernel(x)
        with torch._C._DisableTorchDispatch():
            return torch.relu(x * self.weight + self.bias)
