"""load_inline with C++ and torch's headers."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CASE = {
    "task": "affine_relu",
    "about": "load_inline with C++ and torch's headers",
    "slow": True,
}
SOURCE = """
#include <torch/extension.h>

torch::Tensor affine_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
    auto out = torch::empty_like(x);
    const float* a = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* o = out.data_ptr<float>();
    const int64_t columns = x.size(1);
    for (int64_t i = 0; i < x.numel(); ++i) {
        const float v = a[i] * w[i % columns] + b[i % columns];
        o[i] = v > 0.0f || v != v ? v : 0.0f;
    }
    return out;
}
"""
extension = load_inline(name="corpus_affine_relu", cpp_sources=SOURCE, functions=["affine_relu"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        return extension.affine_relu(x, self.weight, self.bias)
