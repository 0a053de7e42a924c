"""Index of the last largest element instead of the first."""

from torch import nn

CASE = {
    "task": "argmax",
    "about": "another choice among ties than the reference makes",
    "fools": "checks that compare the values at the indices",
    "expect": ["wrong"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x.shape[-1] - 1 - x.flip(-1).argmax(dim=-1)
