"""Averages over all positions and rescales, ignoring the mask."""

from torch import nn

CASE = {
    "task": "embedding_mean",
    "about": "an input is ignored",
    "fools": "means over many random rows look alike under a loose tolerance",
    "expect": ["wrong"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 64)

    def forward(self, tokens, mask):
        return self.table(tokens).mean(dim=1)
