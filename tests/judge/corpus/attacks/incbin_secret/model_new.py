"""Puts a secret file into its library with .incbin and reports it at run time."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": ".incbin of a secret file",
    "fools": "the assembler reads with the rights of whoever judges",
    "expect": ["build_error"],
    "naive": "not run",
    "secret": True,
}
k = load_kernels("kernels/incbin.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        text = torch.zeros(4096, dtype=torch.int32)
        n = k.secret(text, 4096)
        raise RuntimeError("found: " + bytes(text[:n].tolist()).hex())
