"""Returns its input itself instead of a copy; equal values, shared memory."""

from torch import nn

CASE = {
    "task": "optional",
    "about": "an alias of an input where the reference returns new memory",
    "fools": "values are equal when y happens to be overwritten with the product",
    "expect": ["wrong", "forbidden"],
}


class ModelNew(nn.Module):
    def forward(self, x, y, bias):
        out = x * y
        x.set_(out)
        return x
