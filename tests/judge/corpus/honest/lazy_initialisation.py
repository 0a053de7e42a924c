"""Makes its scratch memory and tables in the first call."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "makes its scratch memory and tables in the first call",
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        if not hasattr(self, "scratch"):
            self.scratch = torch.empty(x.shape[0], self.linear.out_features)
            self.half = torch.tensor(0.5)
        torch.addmm(self.linear.bias, x, self.linear.weight.t(), out=self.scratch)
        return self.half * self.scratch * (1.0 + torch.erf(self.scratch * 0.5**0.5))
