"""A native thread watches the input's memory and begins as soon as it is written, before the call is announced."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "linear_zero_bias",
    "about": "work begins while inputs are put in place, before the clock starts or the call arrives",
    "fools": "the candidate runs while its inputs are prepared",
    "expect": ["correct", "wrong", "forbidden", "runtime_error"],
    "measure": True,
    "naive": "not run",
    "like": "polls_nothing",
}
k = load_kernels("kernels/poll.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 256) / 16)
        self.bias = nn.Parameter(torch.zeros(128))

    def prepare(self):
        self.packed = self.weight.detach().t().contiguous()

    def forward(self, x):
        out = torch.empty(x.shape[0], 128)
        k.linear(x, self.packed, self.bias, out, x.shape[0], 128, 256, 1)
        return out
