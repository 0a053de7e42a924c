"""Running statistics in train mode, computed by hand."""

import torch
from torch import nn

CASE = {
    "task": "batch_norm",
    "about": "running statistics in train mode, computed by hand",
    "mode": "train",
}


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        n = self.norm
        mean = x.mean(dim=(0, 2, 3))
        centred = x - mean[:, None, None]
        variance = centred.square().mean(dim=(0, 2, 3))
        count = x.numel() // x.shape[1]
        n.running_mean.lerp_(mean, n.momentum)
        n.running_var.lerp_(variance * count / (count - 1), n.momentum)
        n.num_batches_tracked += 1
        scale = n.weight * torch.rsqrt(variance + n.eps)
        return centred * scale[:, None, None] + n.bias[:, None, None]
