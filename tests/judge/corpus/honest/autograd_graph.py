"""Returns a result that carries a graph, since it switches gradients on."""

import torch
from torch import nn

CASE = {
    "task": "gelu",
    "about": "returns a result that carries a graph, since it switches gradients on",
}


class ModelNew(nn.Module):
    def forward(self, x):
        with torch.enable_grad():
            return nn.functional.gelu(x.detach().requires_grad_())
