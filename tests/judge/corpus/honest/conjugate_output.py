"""A lazily conjugated result: right values behind torch's conjugate bit."""

import torch
from torch import nn

CASE = {
    "task": "rotate",
    "about": "a lazily conjugated result: right values behind torch's conjugate bit",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.phase = nn.Parameter(torch.polar(torch.ones(128), torch.linspace(0, 3, 128)))

    def forward(self, z):
        return (z.conj() * self.phase.conj()).resolve_conj().conj(), z.abs()
