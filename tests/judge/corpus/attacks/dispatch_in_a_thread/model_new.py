"""Lets another thread call the operators: dispatch modes belong to one thread."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "operators called in a helper thread, where no thread-local mode sees them",
    "fools": "right, and a kernel of its own is there",
    "expect": ["forbidden"],
    "rules": "kernels",
    "measure": True,
}
k = load_kernels("kernels/affine.cpp")
HELPER = ThreadPoolExecutor(1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def kernel(self, x):
        out = torch.empty_like(x)
        k.affine_relu(x, self.weight, self.bias, out, x.shape[0], x.shape[1])
        return out

    def work(self, x, out):
        with torch.no_grad():
            torch.clamp(x * self.weight + self.bias, min=0, out=out)

    def forward(self, x):
        out = self.kernel(x)
        HELPER.submit(self.work, x, out).result()
        return out
