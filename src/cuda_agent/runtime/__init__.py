"""What a solution imports to build, load and call its kernels.

Needs torch, the standard library and a compiler: g++ for C++, `cuda.core` or nvcc for CUDA, Triton for its files.

    from cuda_agent.runtime import load_kernels
    k = load_kernels("kernels/x.cpp")        # relative to the calling file
    k.fused(x, w, out, x.numel(), 1e-5)      # an extern "C" function
    c = load_kernels("kernels/x.cu")
    c.fused[grid, block](x, w, out, n)       # a __global__ function, on torch's current stream
    t = load_kernels("kernels/x.py")
    t.fused[grid](x, w, out, n, BLOCK=256)   # a function under @triton.jit

Pointers take contiguous tensors of exactly the element type (on the CPU; for CUDA sources on the GPU), or None for a
null pointer; `uint16_t*` takes the 16-bit float types too. Scalars take Python numbers. Autograd does not see a call.
A call returns nothing or a number.
"""

from cuda_agent.runtime.cache import BuildCache, Entry, Key
from cuda_agent.runtime.compiler import FLAGS, Built, Completed, Parser, Run, build, run_program
from cuda_agent.runtime.cuda_build import CUDA_SUFFIXES, build_cuda
from cuda_agent.runtime.errors import CompilerMissing, KernelBuildError, KernelError
from cuda_agent.runtime.loader import Kernels, load_kernels, root_of, set_signature_parser
from cuda_agent.runtime.signatures import Function, Parameter, Signatures, beside, read_beside
from cuda_agent.runtime.sourcetree import SourceTree, read_tree
from cuda_agent.runtime.triton_kernels import NOT_INSTALLED, TRITON_SUFFIXES, TritonKernels

__all__ = [
    "CUDA_SUFFIXES",
    "FLAGS",
    "NOT_INSTALLED",
    "TRITON_SUFFIXES",
    "BuildCache",
    "Built",
    "CompilerMissing",
    "Completed",
    "Entry",
    "Function",
    "KernelBuildError",
    "KernelError",
    "Kernels",
    "Key",
    "Parameter",
    "Parser",
    "Run",
    "Signatures",
    "SourceTree",
    "TritonKernels",
    "beside",
    "build",
    "build_cuda",
    "load_kernels",
    "read_beside",
    "read_tree",
    "root_of",
    "run_program",
    "set_signature_parser",
]
