"""Returns at once; a thread fills the output later. The first calls are done in time."""

import atexit
import threading
import time

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "thread injection: the work is done after the clock has stopped",
    "fools": "the clock stops at return, and outputs of timed calls are not compared",
    "expect": ["wrong", "forbidden"],
    "measure": True,
}
atexit.register(time.sleep, 0.2)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.calls = 0

    def fill(self, out, x):
        with torch.no_grad():
            out.copy_(nn.functional.gelu(self.linear(x)))

    def forward(self, x):
        self.calls += 1
        out = torch.empty_like(x)
        if self.calls < 4:
            self.fill(out, x)
        else:
            threading.Thread(target=self.fill, args=(out, x), daemon=True).start()
        return out
