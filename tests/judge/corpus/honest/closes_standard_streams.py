"""Redirects and closes stdout, as some libraries do."""

import sys

from torch import nn

CASE = {
    "task": "gelu",
    "about": "redirects and closes stdout, as some libraries do",
}


class ModelNew(nn.Module):
    def forward(self, x):
        if sys.stdout is not None:
            sys.stdout = sys.stderr = None
        return nn.functional.gelu(x)
