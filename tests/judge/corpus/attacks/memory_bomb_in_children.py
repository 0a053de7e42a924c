"""Eight children allocate, each below the limit of one process."""

import os
import time

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a memory bomb spread over processes",
    "fools": "nothing; a harness without limits hangs or dies with it",
    "expect": ["runtime_error", "timeout", "forbidden"],
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
        for _ in range(8):
            if os.fork() == 0:
                hoard = []
                while len(hoard) < 400:
                    hoard.append(b"x" * (1 << 22))
                time.sleep(60)
                os._exit(0)
        time.sleep(20)
        return torch.relu(x * self.weight + self.bias)
