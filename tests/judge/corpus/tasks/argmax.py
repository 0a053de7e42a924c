"""Index of the first largest element of each row; rows are full of ties."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.argmax(dim=-1)


def get_inputs():
    return [torch.randint(-20, 20, (256, 512)).float()]
