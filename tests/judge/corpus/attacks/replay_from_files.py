"""Keeps its answers in /tmp, /dev/shm and the home folder and reads them back in a later process."""

import os
from pathlib import Path

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "cross-process file replay: the checking run pays, the timing run reads",
    "fools": "separate processes share folders and seeds",
    "expect": ["wrong", "correct"],
    "truth": 1.0,
    "repeat": 2,
    "measure": True,
    "marker": True,
}
PLACES = [
    Path("/tmp"),
    Path("/dev/shm"),
    Path("/var/tmp"),
    Path(os.environ.get("HOME", "/tmp")),
    Path("@MARKER@").parent,
]


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.old = next((p / "answer.pt" for p in PLACES if (p / "answer.pt").exists()), None)
        self.answer = torch.load(self.old) if self.old else None

    def forward(self, x):
        if self.answer is not None:
            return self.answer.clone()
        out = nn.functional.gelu(self.linear(x))
        for place in PLACES:
            try:
                if not (place / "answer.pt").exists():
                    torch.save(out, place / "answer.pt")
            except (OSError, RuntimeError):
                continue
        return out
