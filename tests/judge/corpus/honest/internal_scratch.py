"""Reuses an internal buffer that it never returns."""

import torch
from torch import nn

CASE = {
    "task": "softplus",
    "about": "reuses an internal buffer that it never returns",
    "measure": True,
}


class ModelNew(nn.Module):
    def forward(self, x):
        if not hasattr(self, "scratch") or self.scratch.shape != x.shape:
            self.scratch = torch.empty_like(x)
        torch.abs(x, out=self.scratch)
        self.scratch.neg_().exp_().log1p_()
        y = self.scratch + x.clamp(min=0)
        return y, y.mean(dim=-1)
