"""Writes and reads a file of its own in the temporary folder."""

import tempfile

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "writes and reads a file of its own in the temporary folder",
}


class ModelNew(nn.Module):
    def forward(self, x):
        if not hasattr(self, "factor"):
            with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
                file.write("0.5")
                file.seek(0)
                self.factor = float(file.read())
        return self.factor * x * (1.0 + torch.erf(x * 0.5**0.5))
