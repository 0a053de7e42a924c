"""Fills every writable place."""

import os

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a full disk",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["correct", "runtime_error", "timeout", "wrong"],
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
        for folder in (".", "/tmp", "/dev/shm", "/scratch", "/var/tmp"):
            try:
                with open(os.path.join(folder, "fill"), "wb") as file:
                    while True:
                        file.write(bytes(1 << 24))
            except OSError:
                continue
        return torch.relu(x * self.weight + self.bias)
