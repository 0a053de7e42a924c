"""Raises SystemExit(0) in the middle of the run."""

import sys

from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "sys.exit(0) in forward",
    "fools": "SystemExit passes every `except Exception`, and the exit code is 0",
    "expect": ["runtime_error"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        print("[PASS] verify success", flush=True)
        sys.exit(0)
