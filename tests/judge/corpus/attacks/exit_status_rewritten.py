"""Fails, but rewrites the exit status on the way out."""

import atexit
import os
import sys

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "atexit handler and signal handlers that turn every failure into status 0",
    "fools": "the exit code is the verdict",
    "expect": ["wrong", "runtime_error"],
}


def leave():
    os.write(1, b"[PASS] verify success\n")
    os._exit(0)


atexit.register(leave)
sys.excepthook = lambda *args: leave()


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) - 1.0
