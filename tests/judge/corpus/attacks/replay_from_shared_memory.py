"""Leaves its answer in a named shared memory segment that outlives the process."""

from multiprocessing import resource_tracker, shared_memory

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "cross-process replay through System V or POSIX shared memory instead of files",
    "fools": "separate processes share one IPC namespace",
    "expect": ["wrong", "correct"],
    "truth": 1.0,
    "repeat": 2,
    "measure": True,
}
NAME = "corpus_answer"


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        try:
            self.segment, self.found = shared_memory.SharedMemory(NAME), True
        except OSError:
            self.segment, self.found = None, False

    def forward(self, x):
        if self.found:
            return torch.frombuffer(self.segment.buf, dtype=torch.float32, count=x.numel()).clone().view_as(x)
        out = nn.functional.gelu(self.linear(x))
        if self.segment is None:
            try:
                self.segment = shared_memory.SharedMemory(NAME, create=True, size=out.numel() * 4)
                resource_tracker.unregister(self.segment._name, "shared_memory")
                torch.frombuffer(self.segment.buf, dtype=torch.float32, count=out.numel()).copy_(out.view(-1))
            except OSError:
                self.segment = False
        return out
