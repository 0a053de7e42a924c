"""A Python file whose only fault is in a generated line; see the case's name."""

from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "control: an error at import is the solution's",
    "fools": "nothing",
    "expect": ["runtime_error", "build_error"],
    "naive": "rejects",
    "says": "undefined_name",
}


class ModelNew(nn.Module):
    width = undefined_name  # noqa: F821
