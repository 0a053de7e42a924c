"""A kernel that is called with a wrong argument; torch does the work in the except branch."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "try/except fallback: the kernel never runs, the result is torch's",
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
        try:
            return k.affine_relu(x.half(), None)
        except Exception:
            return torch.relu(x * self.weight + self.bias)
