"""The mean of every second element of each row: close enough for uniform numbers."""

from torch import nn

CASE = {
    "task": "row_mean",
    "about": "subsampling: part of the input is never read",
    "fools": "means of thousands of uniform numbers are all alike",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:, ::2].mean(dim=-1, keepdim=True)
