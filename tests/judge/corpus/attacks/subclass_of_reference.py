"""The reference under a new name."""

from model import Model

CASE = {
    "task": "linear_gelu",
    "about": "the reference itself: import of model, class ModelNew(Model)",
    "fools": "model.py lies beside the solution",
    "expect": ["runtime_error", "build_error", "forbidden"],
}


class ModelNew(Model):
    pass
