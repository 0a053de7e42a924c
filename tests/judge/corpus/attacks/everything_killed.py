"""Sends SIGKILL to every process that it may signal."""

import os
import signal

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "kill of everything",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["runtime_error", "forbidden", "correct"],
    "naive": "not run",
    "dangerous": True,
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
        os.kill(-1, signal.SIGKILL)
        return torch.relu(x * self.weight + self.bias)
