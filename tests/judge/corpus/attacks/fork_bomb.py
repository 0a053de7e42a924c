"""Every process forks for ever."""

import os
import time

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a fork bomb",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["timeout", "runtime_error", "forbidden"],
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
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.01)
