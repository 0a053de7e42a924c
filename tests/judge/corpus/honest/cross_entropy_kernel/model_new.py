"""Integer labels in a kernel, one pass per row, the sum in double."""

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "cross_entropy",
    "about": "integer labels in a kernel, one pass per row, the sum in double",
}
k = load_kernels("kernels/losses.cpp")


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        losses = torch.empty(logits.shape[0])
        k.losses(logits, labels, losses, logits.shape[0], logits.shape[1])
        return losses.mean()
