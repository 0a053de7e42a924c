"""A kernel runs on one element, torch on the rest."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "decoy kernel: a token launch beside the operator that does the work",
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
        token = torch.empty(1)
        k.affine_relu(x, self.weight, self.bias, token, 1, 1)
        return torch.relu(x * self.weight + self.bias)
