"""An exception that is raised and handled as part of the work."""

import torch
from torch import nn

CASE = {
    "task": "softplus",
    "about": "an exception that is raised and handled as part of the work",
}


class ModelNew(nn.Module):
    def forward(self, x):
        try:
            self.cache = self.missing
        except AttributeError:
            self.cache = None
        y = torch.logaddexp(x, torch.zeros_like(x))
        return y, y.mean(dim=-1)
