"""softmax_bias_scale.py as one Triton kernel: each program reads a few rows once and writes them once."""

import torch
import triton
from torch import nn

from cuda_agent.runtime import load_kernels

k = load_kernels("kernels/softmax.py")
ROWS = 4


class ModelNew(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))
        self.scale = scale

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.contiguous()
        width = scores.shape[-1]
        rows = scores.numel() // width
        out = torch.empty_like(scores)
        block = triton.next_power_of_2(width)
        grid = (triton.cdiv(rows, ROWS),)
        k.biased_softmax[grid](scores, self.bias, out, rows, width, self.scale, ROWS=ROWS, BLOCK=block)
        return out
