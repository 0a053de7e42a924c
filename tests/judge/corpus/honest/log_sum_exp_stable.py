"""logsumexp with the maximum taken out."""

from torch import nn

CASE = {
    "task": "log_sum_exp",
    "about": "logsumexp with the maximum taken out",
}


class ModelNew(nn.Module):
    def forward(self, x):
        top = x.amax(dim=-1, keepdim=True)
        return (x - top).exp().sum(dim=-1).log() + top.squeeze(-1)
