"""Returns an nn.Parameter, which is a tensor with real storage."""

from torch import nn

CASE = {
    "task": "gelu",
    "about": "returns an nn.Parameter, which is a tensor with real storage",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.Parameter(nn.functional.gelu(x), requires_grad=False)
