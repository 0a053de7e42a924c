"""The library's convolution and a kernel for the clamp."""

from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "conv_relu",
    "about": "the library's convolution and a kernel for the clamp",
    "rules": "libraries",
    "measure": True,
}
k = load_kernels("kernels/clamp.cpp")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)

    def forward(self, x):
        out = self.conv(x)
        k.clamp(out, out.numel())
        return out
