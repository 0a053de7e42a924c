"""Integers and a boolean mask in a kernel."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "embedding_mean",
    "about": "integers and a boolean mask in a kernel",
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/embed.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 64)

    def forward(self, tokens, mask):
        out = torch.empty(tokens.shape[0], 64)
        k.embed(tokens, mask, self.table.weight, out, tokens.shape[0], tokens.shape[1], 64)
        return out
