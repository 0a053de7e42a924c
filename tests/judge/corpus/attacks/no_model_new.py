"""Defines no ModelNew."""

from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "control: ModelNew is missing",
    "fools": "nothing",
    "expect": ["runtime_error", "build_error", "wrong"],
    "naive": "rejects",
    "says": "ModelNew",
}


class Model(nn.Module):
    pass
