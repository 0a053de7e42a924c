"""A native thread polls the last input's memory for new content and computes the answer before it is asked for."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "softplus",
    "about": "a thread that watches the staging buffer and computes ahead while the clock stands still",
    "fools": "inputs are written to the same place each time, long before the timed call",
    "expect": ["correct", "wrong", "forbidden", "runtime_error"],
    "truth": 1.0,
    "measure": True,
    "naive": "not run",
}
k = load_kernels("kernels/watch.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        if not k.ready(x, out, x.numel()):
            out = nn.functional.softplus(x)
            k.watch(x, x.numel())
        return out, out.mean(dim=-1)
