"""New tensor objects each time, all of them views of one storage."""

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a static output buffer behind fresh views, a half of it apart",
    "fools": "objects and addresses differ from call to call while the storage is the same",
    "expect": ["wrong", "forbidden"],
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.big, self.calls = torch.empty(257 * 512), 0

    def forward(self, x):
        self.calls += 1
        start = 64 * (self.calls % 8)
        out = self.big[start : start + x.numel()].view(x.shape)
        out.copy_(nn.functional.gelu(self.linear(x)))
        return out
