"""A view of the input where the reference returns one."""

from torch import nn

CASE = {
    "task": "views",
    "about": "a view of the input where the reference returns one",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1), x.clamp(min=0) - 0.5
