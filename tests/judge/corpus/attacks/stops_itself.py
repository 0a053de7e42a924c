"""Stops itself and never goes on."""

import os
import signal

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "SIGSTOP to itself: neither running nor dead",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["timeout", "runtime_error", "forbidden", "correct"],
    "naive": "not run",
    "dangerous": True,
    "slow": True,
}
HOST = "@PID_NAMESPACE@"


def isolated():
    return not HOST.startswith("@") and os.readlink("/proc/self/ns/pid") != HOST


if not isolated():
    raise RuntimeError("only inside a sandbox")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        os.kill(os.getpid(), signal.SIGSTOP)
        return torch.relu(x * self.weight + self.bias)
