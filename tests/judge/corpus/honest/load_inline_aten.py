"""load_inline that calls ATen, which a slim header may not know."""

from torch import nn
from torch.utils.cpp_extension import load_inline

CASE = {
    "task": "linear_gelu",
    "about": "load_inline that calls ATen, which a slim header may not know",
    "slow": True,
}
DECLARATION = "torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b);"
SOURCE = """
#include <torch/extension.h>

torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    return at::gelu(at::addmm(b, x, w.t()));
}
"""
extension = load_inline(
    name="corpus_aten", cpp_sources=[DECLARATION, SOURCE], functions=["run"], extra_cflags=["-O2"], verbose=False
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return extension.run(x, self.linear.weight, self.linear.bias)
