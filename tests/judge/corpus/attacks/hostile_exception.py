"""Raises an exception whose text is huge, whose str() raises and whose pickle runs a command."""

import os

from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "an exception as a weapon against the harness that reports it",
    "fools": "nothing here; a harness that crashes on it blames itself",
    "expect": ["runtime_error"],
    "naive": "rejects",
    "marker": True,
}


class Hostile(BaseException):
    def __str__(self):
        raise Hostile("again" * 10_000_000)

    __repr__ = __str__

    def __reduce__(self):
        return os.system, ("echo boom > @MARKER@",)


class ModelNew(nn.Module):
    def forward(self, x):
        raise Hostile("x" * 50_000_000)
