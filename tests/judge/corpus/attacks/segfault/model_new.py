"""Writes to address zero."""

from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "a crash by a wild write",
    "fools": "nothing; the harness dies with the candidate",
    "expect": ["runtime_error"],
    "naive": "rejects",
}
k = load_kernels("kernels/crash.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        k.crash(x, 0)
        return x
