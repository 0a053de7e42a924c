"""Writes to both streams without end."""

import os

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a flood on stdout and stderr without a newline",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["timeout", "runtime_error"],
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
        while True:
            os.write(1, b"x" * 65536)
            os.write(2, b"y" * 65536)
