"""Normalisations. What a normalisation in eval() does with its running statistics is a scale and a shift, which
`prepare` computes and, behind a convolution or a linear layer, folds into the weights."""

from __future__ import annotations

import math
from typing import Any

from cuda_agent.policies.template.graph import Operator
from cuda_agent.policies.template.ir import Call, Node
from cuda_agent.policies.template.lower import Lowering, NoRule, rule
from cuda_agent.policies.template.rules.reductions import mean_of, moments


def normalised(c: Lowering, x: Node, dims: tuple[int, ...], eps: float) -> tuple[Node, Node, Node]:
    """(x - mean) / sqrt(var + eps), the mean and the reciprocal deviation."""
    mean, square = moments(c, x, dims)
    scale = c.b.point("rsqrt", c.b.point("add", square, c.scalar(eps, x.dtype)))
    return c.b.point("mul", c.b.point("sub", x, mean), scale), mean, scale


def affine(c: Lowering, x: Node, weight: Node | None, bias: Node | None) -> Node:
    if weight is not None:
        x = c.b.point("mul", x, weight)
    return x if bias is None else c.b.point("add", x, bias)


@rule("layer_norm", "native_layer_norm")
def layer_norm(
    c: Lowering,
    op: Operator,
    x: Node,
    shape: list[int],
    weight: Node | None = None,
    bias: Node | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Any:
    dims = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    y, mean, scale = normalised(c, x, dims, eps)
    y = affine(c, y, weight, bias)
    return y if op.shape is not None else (y, mean, scale)


@rule("rms_norm", "_fused_rms_norm")
def rms_norm(
    c: Lowering, op: Operator, x: Node, shape: list[int], weight: Node | None = None, eps: float | None = None
) -> Any:
    dims = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    eps = 1.1920928955078125e-07 if eps is None else eps
    scale = c.b.point("rsqrt", c.b.point("add", mean_of(c, c.b.point("mul", x, x), dims), c.scalar(eps, x.dtype)))
    y = affine(c, c.b.point("mul", x, scale), weight, None)
    return y if op.shape is not None else (y, scale)


def by_channel(c: Lowering, vector: Node | None, rank: int) -> Node | None:
    return None if vector is None else c.b.reshape(vector, (vector.numel,) + (1,) * (rank - 2))


def _group_norm(c: Lowering, x: Node, groups: int, weight: Node | None, bias: Node | None, eps: float) -> Node:
    n, channels = x.shape[:2]
    rows = c.b.reshape(x, (n, groups, channels // groups * math.prod(x.shape[2:])))
    y = c.b.reshape(normalised(c, rows, (2,), eps)[0], x.shape)
    return affine(c, y, by_channel(c, weight, len(x.shape)), by_channel(c, bias, len(x.shape)))


@rule("group_norm")
def group_norm(
    c: Lowering,
    op: Operator,
    x: Node,
    groups: int,
    weight: Node | None = None,
    bias: Node | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Node:
    return _group_norm(c, x, groups, weight, bias, eps)


@rule("native_group_norm")
def native_group_norm(
    c: Lowering,
    op: Operator,
    x: Node,
    weight: Node | None,
    bias: Node | None,
    n: int,
    channels: int,
    inner: int,
    groups: int,
    eps: float,
) -> tuple[Node | None, ...]:
    return _group_norm(c, x, groups, weight, bias, eps), None, None


@rule("instance_norm")
def instance_norm(
    c: Lowering,
    op: Operator,
    x: Node,
    weight: Node | None,
    bias: Node | None,
    mean: Node | None,
    var: Node | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Node:
    if not use_input_stats:
        return _eval_norm(c, x, weight, bias, mean, var, eps)
    y = normalised(c, x, tuple(range(2, len(x.shape))), eps)[0]
    return affine(c, y, by_channel(c, weight, len(x.shape)), by_channel(c, bias, len(x.shape)))


@rule("batch_norm")
def batch_norm(
    c: Lowering,
    op: Operator,
    x: Node,
    weight: Node | None,
    bias: Node | None,
    mean: Node | None,
    var: Node | None,
    training: bool,
    momentum: float,
    eps: float,
    *_: Any,
) -> Node:
    if training or mean is None:
        dims = tuple(d for d in range(len(x.shape)) if d != 1)
        y = normalised(c, x, dims, eps)[0]
        return affine(c, y, by_channel(c, weight, len(x.shape)), by_channel(c, bias, len(x.shape)))
    return _eval_norm(c, x, weight, bias, mean, var, eps)


@rule("_native_batch_norm_legit_no_training")
def native_batch_norm(
    c: Lowering,
    op: Operator,
    x: Node,
    weight: Node | None,
    bias: Node | None,
    mean: Node,
    var: Node,
    momentum: float,
    eps: float,
) -> tuple[Node | None, ...]:
    return _eval_norm(c, x, weight, bias, mean, var, eps), None, None


@rule("_native_batch_norm_legit")
def batch_statistics(c: Lowering, op: Operator, x: Node, weight: Node | None, bias: Node | None, *rest: Any) -> Any:
    if not op.op.endswith(".no_stats"):
        raise NoRule("batch statistics that are kept")
    dims = tuple(d for d in range(len(x.shape)) if d != 1)
    y, mean, scale = normalised(c, x, dims, rest[-1])
    return affine(c, y, by_channel(c, weight, len(x.shape)), by_channel(c, bias, len(x.shape))), mean, scale


def _eval_norm(
    c: Lowering, x: Node, weight: Node | None, bias: Node | None, mean: Node | None, var: Node | None, eps: float
) -> Node:
    assert mean is not None and var is not None
    if not all(v is None or c.is_fixed(v) for v in (weight, bias, mean, var)):
        raise NoRule("statistics that are no state")
    channels, dtype = mean.shape, x.dtype
    if weight is None:
        scale = c.derive(f"torch.rsqrt({{0}} + {eps!r})", var, shape=channels, dtype=dtype, name="scale")
    else:
        scale = c.derive(
            f"{{1}} * torch.rsqrt({{0}} + {eps!r})", var, weight, shape=channels, dtype=dtype, name="scale"
        )
    parts = (mean, scale) if bias is None else (mean, scale, bias)
    shift = c.derive(
        "-{0} * {1}" if bias is None else "{2} - {0} * {1}", *parts, shape=channels, dtype=dtype, name="shift"
    )
    folded = _folded(c, x, scale, shift) if c.fold else None
    if folded is not None:
        return folded
    rank = len(x.shape)
    return affine(c, x, by_channel(c, scale, rank), by_channel(c, shift, rank))


def _folded(c: Lowering, x: Node, scale: Node, shift: Node) -> Node | None:
    """The convolution or linear layer that made `x`, with scale and shift in its weights."""
    if not isinstance(x, Call) or not c.only_use(x) or x.target not in ("convolution", "linear"):
        return None
    weight, bias = x.args[1], x.args[2] if len(x.args) > 2 else None
    if not c.is_fixed(weight) or (bias is not None and not c.is_fixed(bias)):
        return None
    output_dim = 1 if x.target == "convolution" and ", True, [" in x.template else 0
    if output_dim and weight.shape[1] != scale.numel:
        return None  # a transposed convolution with groups
    view = [1] * len(weight.shape)
    view[output_dim] = -1
    new = c.derive(
        f"({{0}} * {{1}}.view({view})).contiguous()",
        weight,
        scale,
        shape=weight.shape,
        dtype=weight.dtype,
        name="weight",
    )
    if bias is None:
        added = c.derive("{0}.clone()", shift, shape=shift.shape, dtype=shift.dtype, name="bias")
    else:
        added = c.derive("{0} * {1} + {2}", bias, scale, shift, shape=shift.shape, dtype=shift.dtype, name="bias")
    c.folded.append(f"a normalisation into the {x.target} before it")
    template = x.template if bias is not None else x.template.replace("None", "{2}", 1)
    return c.b.call(x.target, template, x.args[0], new, added, shape=x.shape, dtype=x.dtype)
