"""Never finishes its import, and ignores every signal that can be ignored."""

import os
import signal

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "an endless import that ignores SIGTERM and friends",
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

for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
while True:
    pass


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return torch.relu(x * self.weight + self.bias)
