"""Solutions with Triton kernels for one small task, as text; each is right, wrong or a fraud in one way."""

TASK = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(96))
    def forward(self, x):
        return torch.relu(x * self.scale)
def get_inputs():
    return [torch.randn(8, 96)]
"""
KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale_relu(x, scale, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside) * tl.load(scale + column, mask=inside)
    tl.store(out + row * width + column, tl.maximum(value, 0.0), mask=inside)
"""
MODEL = """
import torch
{imports}
class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.zeros(96))
    def kernel(self, x, out):
        {launch}
        return out
    def forward(self, x):
        {body}
"""
LAUNCH = "scale_relu[(x.shape[0],)](x, self.scale, out, x.shape[1], BLOCK=128)"
BODY = "return self.kernel(x, torch.empty_like(x))"


def model(imports: str, launch: str = LAUNCH, body: str = BODY) -> str:
    return MODEL.format(imports=imports, launch=launch, body=body)


def single(kernel: str = KERNEL, launch: str = LAUNCH, body: str = BODY) -> str:
    """A KernelBench single file."""
    return model(kernel, launch, body)


AUTOTUNED = KERNEL.replace(
    "@triton.jit\n",
    """@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["width"])
@triton.heuristics({"EVEN": lambda args: args["width"] % 128 == 0})
@triton.jit
""",
).replace("BLOCK: tl.constexpr", "EVEN: tl.constexpr, BLOCK: tl.constexpr")
FREE_LAUNCH = "scale_relu[lambda meta: (x.shape[0],)](x, self.scale, out, x.shape[1])"
TORCH = "torch.relu(x * self.scale)"
DECOY = f"self.kernel(x[:1].contiguous(), torch.empty_like(x[:1]))\n        return {TORCH}"
"""A launch on one row beside torch's operators."""
HIDDEN = """out = self.kernel(x, torch.empty_like(x))
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.clamp, x * self.scale, min=0).result()"""
COPIED = """import ctypes
        out = torch.empty_like(x)
        self.kernel(x, torch.empty_like(x))
        n, w = x.shape
        a = (ctypes.c_float * (n * w)).from_address(x.data_ptr())
        s = (ctypes.c_float * w).from_address(self.scale.data_ptr())
        o = (ctypes.c_float * (n * w)).from_address(out.data_ptr())
        for i in range(n * w):
            o[i] = max(a[i] * s[i % w], 0.0)
        return out"""
"""Computes in plain Python on raw memory, past torch and its doors, beside a kernel whose answer is dropped."""

MARKED = """
import os
folder = os.environ["TRITON_CACHE_DIR"]
def found():
    names = [name for _, _, names in os.walk(folder) for name in names]
    marks = len(open(folder + "/mark").read()) if "mark" in names else 0
    open(folder + "/mark", "a").write("m")
    return any(name.endswith(".cubin") for name in names), marks
compiled, marks = found()
"""
"""Notes what it starts with, and leaves a mark in the folder of compiled kernels."""
LOOPING = KERNEL.replace(
    "    value = tl.load",
    "    scaled = 0.0\n    for _ in range(width - 95):\n        scaled += 1.0\n    value = scaled * tl.load",
)
"""A loop up to an argument."""
LIBDEVICE = KERNEL.replace(
    "import triton\n", "import triton\nfrom triton.language.extra import libdevice\n", 1
).replace("tl.maximum(value, 0.0)", "(value + libdevice.abs(value)) / libdevice.sqrt(4.0)")
MATRIX = """
import triton
import triton.language as tl

@triton.jit
def product(a, b, out, n, B: tl.constexpr):
    i = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for step in range(n):
        total += tl.dot(tl.load(a + step * B * B + i), tl.load(b + step * B * B + i))
    tl.store(out + i, total)
"""
MATRIX_LAUNCH = "product[(1,)](x, self.scale, out, 2, B=128, num_stages=4, num_warps=8)"
"""Takes more shared memory than any GPU has."""
