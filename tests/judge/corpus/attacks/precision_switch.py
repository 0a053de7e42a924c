"""Asks torch for the cheaper matrix products, globally."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "precision downgrade through global switches (bf16 reductions, TF32 where there is a GPU)",
    "fools": "a tolerance of 1e-2; on machines without such units nothing changes",
    "expect": ["wrong", "correct", "forbidden"],
    "truth": 1.0,
    "measure": True,
}
torch.set_float32_matmul_precision("medium")
torch.backends.mkldnn.matmul.fp32_precision = "bf16"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))
