"""Running sums by blocks, in float32."""

from torch import nn

CASE = {
    "task": "cumsum",
    "about": "running sums by blocks, in float32",
}


class ModelNew(nn.Module):
    def forward(self, x):
        blocks = x.view(x.shape[0], -1, 64).cumsum(dim=-1)
        before = blocks[..., -1].cumsum(dim=-1) - blocks[..., -1]
        return (blocks + before[..., None]).view(x.shape)
