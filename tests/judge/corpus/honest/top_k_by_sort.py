"""Values and indices from a full sort."""

import torch
from torch import nn

CASE = {
    "task": "top_k",
    "about": "values and indices from a full sort",
}


class ModelNew(nn.Module):
    def forward(self, x):
        order = torch.sort(x, dim=-1, descending=True)
        return order.values[:, :4].contiguous(), order.indices[:, :4].contiguous()
