"""Matrix products and convolutions: left to the library, everything around them is not."""

from __future__ import annotations

import math
from typing import Any

from cuda_agent.policies.template.graph import Operator
from cuda_agent.policies.template.ir import Node
from cuda_agent.policies.template.lower import Lowering, NoRule, rule
from cuda_agent.policies.template.rules.reductions import softmax


def _float_only(*nodes: Node) -> None:
    if any(not n.dtype.startswith("float") for n in nodes):
        raise NoRule("products of integers")


@rule("mm")
def mm(c: Lowering, op: Operator, a: Node, b: Node) -> Node:
    _float_only(a, b)
    return c.b.call("mm", "torch.mm({0}, {1})", a, b, shape=(a.shape[0], b.shape[1]), dtype=a.dtype)


@rule("bmm")
def bmm(c: Lowering, op: Operator, a: Node, b: Node) -> Node:
    _float_only(a, b)
    return c.b.call("bmm", "torch.bmm({0}, {1})", a, b, shape=(*a.shape[:2], b.shape[2]), dtype=a.dtype)


@rule("addmm", "baddbmm")
def addmm(c: Lowering, op: Operator, bias: Node, a: Node, b: Node, *, beta: float = 1, alpha: float = 1) -> Node:
    _float_only(a, b)
    product = (mm if "addmm" in op.op.split(".")[1] and len(a.shape) == 2 else bmm)(c, op, a, b)
    if alpha != 1:
        product = c.b.point("mul", product, c.scalar(alpha, a.dtype))
    if beta == 0:
        return product  # type: ignore[no-any-return]
    return c.b.point("add", product, bias if beta == 1 else c.b.point("mul", bias, c.scalar(beta, a.dtype)))


@rule("mv", "dot", "addmv")
def mv(c: Lowering, op: Operator, *args: Node, **_: Any) -> Node:
    a, b = args[-2:]
    product = c.b.reduce("sum", c.b.point("mul", a, b), (len(a.shape) - 1,), keep=False)
    return c.b.point("add", product, args[0]) if len(args) == 3 else product


@rule("linear")
def linear(c: Lowering, op: Operator, x: Node, weight: Node, bias: Node | None = None) -> Node:
    _float_only(x, weight)
    rows = c.b.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    shape = (rows.shape[0], weight.shape[0])
    args = (rows, weight) if bias is None else (rows, weight, bias)
    template = "torch.mm({0}, {1}.t())" if bias is None else "torch.addmm({2}, {0}, {1}.t())"
    product = c.b.call("linear", template, *args, shape=shape, dtype=x.dtype)
    if tuple(op.shape or ()) == shape:
        return product
    c.producers.setdefault(product, op.name)
    return c.b.reshape(product, tuple(op.shape or ()))


@rule("convolution")
def convolution(
    c: Lowering,
    op: Operator,
    x: Node,
    weight: Node,
    bias: Node | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Node:
    _float_only(x, weight)
    args = (x, weight) if bias is None else (x, weight, bias)
    template = (
        f"torch.convolution({{0}}, {{1}}, {'None' if bias is None else '{2}'}, {stride}, {padding}, {dilation}, "
        f"{transposed}, {output_padding}, {groups})"
    )
    return c.b.call("convolution", template, *args, shape=tuple(op.shape or ()), dtype=x.dtype)


@rule("scaled_dot_product_attention")
def attention(
    c: Lowering,
    op: Operator,
    q: Node,
    k: Node,
    v: Node,
    mask: Node | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    **named: Any,
) -> Node:
    causal, mask = named.get("is_causal", causal), named.get("attn_mask", mask)
    if dropout or enable_gqa or q.shape[:-2] != k.shape[:-2]:
        raise NoRule("attention with dropout or with grouped heads")
    batch, rows, width, columns = math.prod(q.shape[:-2]), q.shape[-2], q.shape[-1], k.shape[-2]
    q3, k3, v3 = (c.b.reshape(t, (batch, *t.shape[-2:])) for t in (q, k, v))
    scores = bmm(c, op, q3, c.b.permute(k3, (0, 2, 1)))
    scores = c.b.reshape(scores, (*q.shape[:-1], columns))
    scores = c.b.point("mul", scores, c.scalar(1 / math.sqrt(width) if scale is None else scale, q.dtype))
    minus = c.scalar(float("-inf"), q.dtype)
    if causal:
        rank = len(scores.shape)
        allowed = c.b.point(
            "le", c.b.position(scores.shape, rank - 1), c.b.position(scores.shape, rank - 2), dtype="bool"
        )
        scores = c.b.point("where", allowed, scores, minus, dtype=q.dtype)
    if mask is not None and mask.dtype == "bool":
        scores = c.b.point("where", mask, scores, minus, dtype=q.dtype)
    elif mask is not None:
        scores = c.b.point("add", scores, mask)
    safe = op.model_copy(update={"op": "aten._safe_softmax.default"}) if mask is not None else op
    weights = c.b.reshape(softmax(c, safe, scores, len(scores.shape) - 1), (batch, rows, columns))
    return c.b.reshape(bmm(c, op, weights, v3), tuple(op.shape or ()))
