"""Takes dispatch modes off the stack while it computes."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "the audit's own dispatch mode is popped",
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
        modes = []
        while torch._C._len_torch_dispatch_stack():
            modes.append(torch._C._pop_torch_dispatch_stack())
        out = torch.relu(x * self.weight + self.bias)
        for mode in reversed(modes):
            torch._C._push_on_torch_dispatch_stack(mode)
        return out
