"""at::linear and at::gelu in C++, through load_inline."""

from torch import nn
from torch.utils.cpp_extension import load_inline

CASE = {
    "task": "linear_gelu",
    "about": "library delegation from C++: at::linear inside the extension",
    "fools": "it is C++, and right",
    "expect": ["forbidden"],
    "rules": "libraries",
    "measure": True,
    "slow": True,
    "naive": "not run",
}
SOURCE = """
#include <torch/extension.h>
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b) { return at::gelu(at::linear(x, w, b)); }
"""
extension = load_inline("corpus_at_linear", SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return extension.run(x, self.linear.weight, self.linear.bias)
