"""Gathers rows by integers and averages under a boolean mask."""

import torch
from torch import nn

CASE = {
    "task": "embedding_mean",
    "about": "gathers rows by integers and averages under a boolean mask",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 64)

    def forward(self, tokens, mask):
        weight = mask.float()
        rows = self.table.weight.index_select(0, tokens.flatten()).view(*tokens.shape, -1)
        return torch.einsum("bt,btd->bd", weight, rows) / weight.sum(dim=1, keepdim=True).clamp(min=1)
