"""Returns indices as floats."""

from torch import nn

CASE = {
    "task": "argmax",
    "about": "wrong dtype for integer results",
    "fools": "both sides are converted to float before they are compared",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x.argmax(dim=-1).float()
