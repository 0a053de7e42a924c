"""Returns a tensor that has shape and dtype and no data at all."""

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "an output without storage (meta device)",
    "fools": "nothing here; shape and dtype are right, reading it fails",
    "expect": ["wrong", "runtime_error", "forbidden"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.empty(x.shape, device="meta")
