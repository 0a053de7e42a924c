"""Which operators a solution may call under which rules. Policy, not security.

`kernels`: own kernels and data movement (allocation, views, copies, casts, layout, concatenation).
`libraries`: also the vendor's matrix products and convolutions. `any`: everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuda_agent.backends.symbols import needed_symbols

MOVEMENT = frozenset(
    """
    empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones ones_like new_ones
    full full_like new_full fill_ zero_ scalar_tensor tensor view _unsafe_view view_as reshape _reshape_alias
    _reshape_copy flatten unflatten permute transpose transpose_ t numpy_T movedim swapaxes swapdims expand
    expand_as broadcast_to slice select narrow squeeze squeeze_ unsqueeze unsqueeze_ as_strided as_strided_
    diagonal unfold split split_with_sizes chunk tensor_split unbind alias detach detach_ lift_fresh set_ resize_
    resolve_conj resolve_neg view_as_real view_as_complex is_pinned result_type contiguous clone copy_ _copy_from
    to _to_copy type_as float double half bfloat16 long int item _local_scalar_dense cat _cat concat concatenate
    stack hstack vstack constant_pad_nd pad roll flip is_nonzero is_floating_point is_contiguous size stride numel
    data_ptr record_stream
    """.split()  # noqa: SIM905
)
LIBRARIES = frozenset(
    """
    mm addmm bmm baddbmm mv addmv matmul linear mkldnn_linear _mkldnn_transpose convolution _convolution
    convolution_overrideable conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    mkldnn_convolution _mkldnn_convolution mkldnn_transposed_convolution thnn_conv2d _slow_conv2d_forward
    slow_conv3d slow_conv3d_forward slow_conv_transpose2d slow_conv_transpose3d slow_conv_dilated2d
    slow_conv_dilated3d _conv_depthwise2d conv_depthwise3d _nnpack_spatial_convolution
    mkldnn_reorder_conv2d_weight
    """.split()  # noqa: SIM905
)
_BAD_PLACES = ("/tmp/", "/dev/shm/", "/solution/")
_OWN_BUILDS = ("/tmp/cache/", "/tmp/triton/")


def broken_by_operators(rules: str, operators: Mapping[str, int]) -> str | None:
    """The first operator that the rules do not allow, as a message; `operators` are paths `inner < outer < …`."""
    allowed = MOVEMENT | (LIBRARIES if rules == "libraries" else frozenset())
    for path in operators:
        names = path.split(" < ")
        if not any(name.removeprefix("aten::") in allowed for name in names):
            return f"rules {rules}: it computes with torch's operator {names[-1]} ({names[0]})"
    return None


def broken_by_libraries(rules: str, libraries: Sequence[str]) -> str | None:
    """A shared library that came in with the candidate and that the judge did not build."""
    for path in libraries:
        ours = path.startswith(_OWN_BUILDS) or "memfd:cuda-agent" in path
        odd = path.startswith(_BAD_PLACES) or "memfd:" in path
        foreign = "/site-packages/" in path and "/site-packages/torch/" not in path
        if (odd or foreign) and not ours:
            return f"rules {rules}: it loads {path.rpartition('/')[2]}, which the judge did not build"
    return None


_LOADERS = {"dlopen", "dlsym", "dlmopen", "dlvsym", "dl_iterate_phdr", "syscall", "system", "popen", "execve", "fork"}
_BLAS = re.compile(r"(cblas_)?[sdcz](gemm|gemv|symm|trmm|syrk|dot|axpy)_?(64_)?$|mkl_|dnnl_|MKL_")


def broken_by_symbols(rules: str, libraries: Sequence[Path]) -> str | None:
    """An own kernel that fetches somebody else's code: a library call that no kernel needs."""
    for library in libraries:
        for name in sorted(needed_symbols(library)):
            if name.partition("@")[0] in _LOADERS or _BLAS.match(name):
                return f"rules {rules}: an own kernel calls {name}, which brings in code that is not its own"
    return None
