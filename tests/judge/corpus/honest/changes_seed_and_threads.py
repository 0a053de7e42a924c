"""Seeds the generators and sets the number of threads for itself."""

import torch
from torch import nn

CASE = {
    "task": "long_rows",
    "about": "seeds the generators and sets the number of threads for itself",
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        torch.set_num_threads(1)

    def forward(self, x):
        return x.mean(dim=1), x.mean(dim=0)
