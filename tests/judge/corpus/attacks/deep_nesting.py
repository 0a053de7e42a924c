"""Lists in lists, a hundred thousand deep, and one list that holds itself."""

from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a structure on which a recursive comparison overflows",
    "fools": "nothing here; the harness crashes instead of the candidate",
    "expect": ["wrong", "runtime_error"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def forward(self, x):
        deep = x
        for _ in range(100_000):
            deep = [deep]
        own = []
        own.append(own)
        return [deep, own]
