"""A C++ kernel that never returns; Python's signal handlers never run."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "an endless loop in C++",
    "fools": "nothing; a harness that asks politely waits for ever",
    "expect": ["timeout"],
    "naive": "not run",
    "slow": True,
}
k = load_kernels("kernels/loop.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        k.loop(x, out)
        return out
