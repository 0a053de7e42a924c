"""BatchNorm in eval mode as the identity: its running statistics are zero and one at first."""

from torch import nn

CASE = {
    "task": "batch_norm",
    "about": "default buffers ignored: running mean and variance are never read",
    "fools": "buffers have their initial values",
    "expect": ["wrong"],
}


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return x.clone()
