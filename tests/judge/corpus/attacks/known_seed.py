"""Knows that everybody seeds with 42 and has the answer to those inputs ready before it is asked."""

import torch
from torch import nn

CASE = {
    "task": "softmax",
    "about": "known public seeds: answers are prepared ahead",
    "fools": "inputs come from seed 42",
    "expect": ["wrong"],
    "naive_ratio": 1.5,
}
torch.manual_seed(42)
ANSWER = torch.softmax(torch.randn(128, 2048), dim=-1)


class ModelNew(nn.Module):
    def forward(self, x):
        return ANSWER
