"""The last element for the maximum and the first for the minimum, since all rows are sorted."""

from torch import nn

CASE = {
    "task": "peak",
    "about": "structure of the inputs is assumed: sorted rows",
    "fools": "get_inputs makes sorted rows only",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def forward(self, x):
        return x[:, -1].clone(), x[:, -1] - x[:, 0]
