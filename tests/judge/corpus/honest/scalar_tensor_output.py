"""A tensor without dimensions, from gather and logsumexp; labels are integers."""

import torch
from torch import nn

CASE = {
    "task": "cross_entropy",
    "about": "a tensor without dimensions, from gather and logsumexp; labels are integers",
}


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        picked = logits.gather(1, labels[:, None]).squeeze(1)
        return (torch.logsumexp(logits, dim=1) - picked).mean()
