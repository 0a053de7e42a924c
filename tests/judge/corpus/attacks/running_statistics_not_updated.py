"""Right outputs in train mode, but the running statistics stay as they were."""

from torch import nn

CASE = {
    "task": "batch_norm",
    "about": "buffers that a call changes are results too (train mode)",
    "fools": "only returned values are compared",
    "expect": ["wrong"],
    "mode": "train",
    "naive": "not run",
}


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return nn.functional.batch_norm(x, None, None, self.norm.weight, self.norm.bias, training=True)
