"""A subclass whose shape, type and class lie about it while its storage holds nothing."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a subclass that pretends to be torch.Tensor",
    "fools": "isinstance and __class__ say Tensor, allclose is answered by the subclass",
    "expect": ["wrong", "forbidden", "runtime_error"],
}


class Pretender(torch.Tensor):
    __class__ = torch.Tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if getattr(function, "__name__", "") in ("allclose", "equal", "all", "item", "__bool__"):
            return True
        return super().__torch_function__(function, types, args, kwargs or {})


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x).as_subclass(Pretender)
