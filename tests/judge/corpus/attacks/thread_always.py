"""Every call leaves its work to a thread that needs a twentieth of a second; the output is zeros until then."""

import threading
import time

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "host work after return, in each call",
    "fools": "a person who prints or compares later sees right values; nobody looks at once",
    "expect": ["wrong", "forbidden"],
    "naive": "rejects",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def late(self, out, x):
        time.sleep(0.05)
        with torch.no_grad():
            torch.clamp(x * self.weight + self.bias, min=0, out=out)

    def forward(self, x):
        out = torch.zeros_like(x)
        threading.Thread(target=self.late, args=(out, x), daemon=True).start()
        return out
