"""A C++ global constructor that leaves while the library is being loaded."""

from torch import nn

from cuda_agent.runtime import load_kernels

CASE = {
    "task": "affine_relu",
    "about": "exit from a C++ global constructor during load, after printing success",
    "fools": "exit code and stdout are the verdict",
    "expect": ["runtime_error"],
}
k = load_kernels("kernels/leave.cpp")


class ModelNew(nn.Module):
    def forward(self, x):
        return x
