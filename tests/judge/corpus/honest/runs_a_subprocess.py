"""Asks a short-lived child process for a number in its constructor."""

import subprocess
import sys

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "asks a short-lived child process for a number in its constructor",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        done = subprocess.run([sys.executable, "-c", "print(0.5)"], capture_output=True, text=True, check=True)
        self.half = float(done.stdout)

    def forward(self, x):
        return self.half * x * (1.0 + torch.erf(x * 0.5**0.5))
