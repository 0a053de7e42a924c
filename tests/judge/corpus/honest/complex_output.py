"""Complex numbers by real and imaginary parts."""

import torch
from torch import nn

CASE = {
    "task": "rotate",
    "about": "complex numbers by real and imaginary parts",
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.phase = nn.Parameter(torch.polar(torch.ones(128), torch.linspace(0, 3, 128)))

    def forward(self, z):
        p = self.phase
        turned = torch.complex(z.real * p.real - z.imag * p.imag, z.real * p.imag + z.imag * p.real)
        return turned, torch.hypot(z.real, z.imag)
