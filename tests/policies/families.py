"""Small modules of every family that the template policy has rules for: name → (case, inputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, randn
from writing import Case

Cases = dict[str, tuple[Case, list[Any]]]
FAMILIES: dict[str, Callable[[Cases], None]] = {}


def family(function: Callable[[Cases], None]) -> Callable[[Cases], None]:
    FAMILIES[function.__name__] = function
    return function


def cases_of(name: str) -> Cases:
    torch.manual_seed(0)
    cases: Cases = {}
    FAMILIES[name](cases)
    return cases


def add(
    cases: Cases,
    name: str,
    function: Callable[..., Any],
    inputs: list[Any],
    *modules: nn.Module,
    parameters: tuple[torch.Tensor, ...] = (),
) -> None:
    cases[name] = (Case(function, *modules, parameters=parameters), inputs)


_ACTIVATIONS = """relu gelu silu mish hardswish hardsigmoid softplus elu selu celu leaky_relu hardtanh relu6 logsigmoid
tanhshrink softsign hardshrink softshrink tanh sigmoid"""
ACTIVATIONS = _ACTIVATIONS.split()
_UNARY = """abs exp exp2 expm1 sin cos tan atan sinh cosh asinh erf erfc square sign floor ceil round trunc frac neg
isnan isinf isfinite reciprocal"""
UNARY = _UNARY.split()
_POSITIVE = "log log2 log10 log1p sqrt rsqrt"
POSITIVE = _POSITIVE.split()
_ODD = "exp expm1 log1p sqrt rsqrt tanh erf sigmoid sign abs reciprocal isnan isinf isfinite"


def one(module: Any, name: str) -> Callable[..., Any]:
    """A case that calls `module.name` on its input."""
    function = getattr(module, name)
    return lambda s, x: function(x)


@family
def activations(cases: Cases) -> None:
    x = randn(24, 130) * 3
    for name in ACTIVATIONS:
        add(cases, name, one(F, name), [x])
    add(cases, "gelu_tanh", lambda s, x: F.gelu(x, approximate="tanh"), [x])
    add(cases, "softplus_beta", lambda s, x: F.softplus(x, 2.0, 5.0), [x])
    add(cases, "threshold", lambda s, x: F.threshold(x, 0.1, 20.0), [x])
    add(cases, "prelu", lambda s, x: F.prelu(x, s.p[0]), [randn(4, 5, 6)], parameters=(randn(5),))
    add(cases, "glu", lambda s, x: F.glu(x, 1), [randn(4, 10, 6)])


@family
def elementwise(cases: Cases) -> None:
    x, y = randn(24, 130), randn(130)
    for name in UNARY:
        add(cases, name, one(torch, name), [x])
    for name in POSITIVE:
        add(cases, name, one(torch, name), [x.abs() + 0.1])
    add(cases, "chain", lambda s, x, y: torch.sigmoid(x * 2 + y) - torch.relu(y).pow(3) / 3, [x, y])
    add(cases, "column", lambda s, x, y: (x - y) / (y.abs() + 1), [x, randn(24, 1)])
    add(cases, "powers", lambda s, x: (x.pow(2), x.abs().pow(0.5), x.pow(-1), x.abs().pow(1.7), 2**x), [x])
    add(cases, "divisions", lambda s, x: (x // 0.3, x % 0.3, torch.div(x, 0.3, rounding_mode="trunc"), x / 4), [x])
    add(cases, "where", lambda s, x, y: torch.where(x > y, x.clamp(-1, 1), y.clamp(min=0)), [x, randn(24, 130)])
    add(cases, "compare", lambda s, x, y: (x > y, x <= 0, (x != y) & (x < 1), ~(x > 0)), [x, randn(24, 130)])
    add(cases, "lerp", lambda s, x, y: (torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=0.5)), [x, randn(24, 130)])
    add(cases, "scalars", lambda s, x, n: x * n + n, [x, 3.0])
    add(cases, "not_contiguous", lambda s, x: x * 2 + x.sum(1, keepdim=True), [randn(50, 30).t()])
    add(cases, "zero_dim", lambda s, x, y: x * y + 1, [x, torch.tensor(2.5)])
    add(cases, "double", lambda s, x: F.gelu(x).softmax(1), [randn(10, 12).double()])


@family
def integers(cases: Cases) -> None:
    i, a, b = torch.randint(-20, 20, (13, 11)), randn(5, 6) > 0, randn(5, 6) > 1
    add(cases, "arithmetic", lambda s, i: (i * 2 + i // 3, i % 7, -i, i.abs(), i / 2, i.clamp(-3, 3), i**3), [i])
    add(
        cases,
        "sums",
        lambda s, i: (i.sum(), i.float().mean(0), (i > 3).sum(1), i.amax(0), i.argmin(1), i.cumsum(0)),
        [i],
    )
    add(cases, "booleans", lambda s, a, b: (a & b, a | b, ~a, a.any(1), b.all(0), a ^ b, a.sum()), [a, b])
    add(cases, "small", lambda s, i: (i.to(torch.int32) * 3, i.to(torch.uint8), i.to(torch.int16).max(1)[0]), [i.abs()])
    add(cases, "bits", lambda s, i: (i & 6, i | 1, i ^ 3, ~i), [i])


@family
def reductions(cases: Cases) -> None:
    x = randn(6, 70, 33)
    for dims in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        for name in ("sum", "amin", "std"):
            add(cases, f"{name}{dims}", lambda s, x, n=name, d=dims: getattr(torch, n)(x, d), [x])
    add(cases, "mean_keep", lambda s, x: x.mean((0, 2), keepdim=True), [x])
    for dim in (0, 1, 2):
        add(cases, f"argmax{dim}", lambda s, x, d=dim: (x.argmax(d), x.argmin(d, keepdim=True)), [x])
        add(cases, f"max{dim}", lambda s, x, d=dim: tuple(x.max(d)), [x])
        add(cases, f"prod{dim}", lambda s, x, d=dim: x.prod(d), [x])
    add(cases, "argmax_flat", lambda s, x: x.argmax(), [x])
    add(cases, "ties", lambda s, x: (x.round().argmax(1), x.round().max(2)[1]), [x])
    add(cases, "long", lambda s, x: (x * 2).sum(), [randn(100, 3000)])
    add(cases, "few_rows", lambda s, x: (x - x.mean(1, keepdim=True)).abs().sum(1), [randn(3, 40000) + 5])
    add(cases, "few_columns", lambda s, x: x.var(0), [randn(20000, 5)])
    add(cases, "var_biased", lambda s, x: (x.var(1, unbiased=False), torch.var_mean(x, 2)), [x + 30])
    add(
        cases,
        "moments",
        lambda s, x: (x.var(1), x.mean(1), (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)),
        [x],
    )
    add(cases, "two_rows", lambda s, x: F.softmax(x / x.norm(), 1) * x.mean(0), [randn(50, 60)])
    add(cases, "nested", lambda s, x: torch.min(torch.max(x * 2, dim=1)[0], dim=1)[0], [randn(4, 8, 50, 6)])
    add(
        cases,
        "norms",
        lambda s, x: (
            x.norm(p=1, dim=1),
            x.norm(dim=2),
            torch.linalg.vector_norm(x, 3, 1),
            torch.linalg.vector_norm(x, float("inf")),
            x.norm(p=0),
        ),
        [x],
    )


@family
def rows(cases: Cases) -> None:
    add(cases, "softmax_last", lambda s, x: F.softmax(x, 1), [randn(33, 1000)])
    add(cases, "softmax_first", lambda s, x: F.softmax(x, 0), [randn(33, 1000)])
    add(cases, "softmax_middle", lambda s, x: F.softmax(x, 1), [randn(3, 40, 7, 9)])
    add(cases, "softmin", lambda s, x: F.softmin(x, -1), [randn(8, 9)])
    add(cases, "log_softmax", lambda s, x: F.log_softmax(x, -1) * 2, [randn(5, 40, 77)])
    add(cases, "logsumexp", lambda s, x: (torch.logsumexp(x, 1), torch.logsumexp(x, (1, 2))), [randn(5, 40, 77)])
    add(cases, "costly_softmax", lambda s, x: F.softmax(torch.tanh(F.gelu(x)) * 3, 1), [randn(33, 300)])
    add(cases, "layer_norm", lambda s, x: s.m[0](x), [randn(8, 16, 200)], nn.LayerNorm(200))
    add(cases, "layer_norm_2d", lambda s, x: F.gelu(s.m[0](x)), [randn(8, 16, 20)], nn.LayerNorm((16, 20)))
    add(cases, "group_norm", lambda s, x: s.m[0](x), [randn(4, 12, 9, 10)], nn.GroupNorm(3, 12))
    add(cases, "group_norm_then", lambda s, x: s.m[0](x).mean((1, 2, 3)), [randn(4, 12, 9, 10)], nn.GroupNorm(3, 12))
    add(cases, "instance_norm", lambda s, x: s.m[0](x), [randn(4, 6, 9, 10)], nn.InstanceNorm2d(6, affine=True))
    add(cases, "batch_norm", lambda s, x: s.m[0](x), [randn(4, 6, 9, 10)], nn.BatchNorm2d(6))
    add(cases, "rms_norm", lambda s, x: s.m[0](x), [randn(4, 12, 64)], nn.RMSNorm(64))
    add(
        cases, "rms_channels", lambda s, x: x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-5), [randn(4, 12, 9, 10)]
    )
    add(cases, "normalize", lambda s, x: (F.normalize(x, dim=1), x / torch.norm(x)), [randn(30, 500)])
    add(cases, "cosine", lambda s, x, y: F.cosine_similarity(x, y, dim=1), [randn(30, 50), randn(30, 50)])


@family
def losses(cases: Cases) -> None:
    x, y, z = randn(64, 100), randn(64, 100), randn(64, 100)
    labels = torch.randint(0, 100, (64,))
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        add(cases, name, lambda s, x, y, n=name: (getattr(F, n)(x, y), getattr(F, n)(x, y, reduction="sum")), [x, y])
    add(cases, "cross_entropy", lambda s, x, t: F.cross_entropy(x, t), [x, labels])
    add(
        cases,
        "cross_entropy_2d",
        lambda s, x, t: F.cross_entropy(x, t, label_smoothing=0.1, reduction="sum"),
        [randn(6, 10, 5), torch.randint(0, 10, (6, 5))],
    )
    add(cases, "nll", lambda s, x, t: F.nll_loss(F.log_softmax(x, 1), t), [x, labels])
    add(cases, "kl_div", lambda s, x, y: F.kl_div(torch.log(x), y, reduction="batchmean"), [x.softmax(1), y.softmax(1)])
    add(cases, "hinge", lambda s, x, y: torch.mean(torch.clamp(1 - x * y, min=0)), [x, (randn(64, 1) > 0) * 2.0 - 1])
    add(cases, "bce", lambda s, x, y: F.binary_cross_entropy_with_logits(x, y), [x, y.sigmoid()])
    add(cases, "cosine", lambda s, x, y: torch.mean(1 - F.cosine_similarity(x, y, dim=1)), [x, y])
    add(cases, "triplet", lambda s, x, y, z: F.triplet_margin_loss(x, y, z), [x, y, z])


@family
def scans(cases: Cases) -> None:
    x = randn(6, 70, 33)
    for dim in (0, 1, 2):
        add(cases, f"cumsum{dim}", lambda s, x, d=dim: torch.cumsum(x, d) * 2, [x])
        add(cases, f"cumprod{dim}", lambda s, x, d=dim: torch.cumprod(x, d), [x])
    add(cases, "reverse", lambda s, x: x.flip(1).cumsum(1).flip(1), [randn(6, 700)])
    add(
        cases,
        "exclusive",
        lambda s, x: torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x[:, :-1], 1)), 1),
        [randn(6, 700)],
    )
    add(cases, "masked", lambda s, x, m: torch.cumsum(x * m, 1), [randn(7, 700), randn(7, 700) > 0])
    add(cases, "of_softmax", lambda s, x: F.softmax(x, 1).cumsum(1), [randn(7, 70)])
    add(cases, "normed", lambda s, x: x.cumsum(1) / x.cumsum(1)[:, -1:], [randn(7, 70).abs()])


@family
def pooling(cases: Cases) -> None:
    x = randn(2, 5, 33, 40)
    for name, options in {
        "plain": {"kernel_size": 2},
        "same": {"kernel_size": 3, "stride": 1, "padding": 1},
        "dilated": {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2},
        "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    }.items():
        add(cases, f"max_{name}", lambda s, x, o=options: F.max_pool2d(x, **o), [x])
    for name, options in {
        "plain": {"kernel_size": 2},
        "same": {"kernel_size": 3, "stride": 1, "padding": 1},
        "inside": {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    }.items():
        add(cases, f"avg_{name}", lambda s, x, o=options: F.avg_pool2d(x, **o) * 2, [x])
    add(cases, "max_1d", lambda s, x: F.max_pool1d(x, 4, 2, 1), [randn(2, 5, 333)])
    add(cases, "max_3d", lambda s, x: F.max_pool3d(x, 3, 2, 1), [randn(2, 3, 9, 10, 11)])
    add(cases, "avg_1d", lambda s, x: F.avg_pool1d(x, 4, 2, 1), [randn(2, 5, 333)])
    add(cases, "avg_3d", lambda s, x: F.avg_pool3d(x, 3, 2, 1), [randn(2, 3, 9, 10, 11)])
    add(
        cases,
        "adaptive",
        lambda s, x: (F.adaptive_avg_pool2d(x, (2, 4)), F.adaptive_max_pool2d(x, (2, 4))),
        [randn(2, 5, 8, 8)],
    )
    add(cases, "global", lambda s, x: F.adaptive_avg_pool2d(x, 1), [randn(2, 5, 8, 8)])
    add(cases, "costly_input", lambda s, x: F.max_pool2d(torch.tanh(x), 3, 1, 1), [randn(2, 5, 12, 8)])


@family
def library(cases: Cases) -> None:
    add(cases, "linear", lambda s, x: F.gelu(s.m[0](x)), [randn(32, 20)], nn.Linear(20, 40))
    add(
        cases, "linear_3d", lambda s, x: F.gelu(s.m[0](x)) + x.mean(), [randn(3, 32, 20)], nn.Linear(20, 40, bias=False)
    )
    add(cases, "linear_softmax", lambda s, x: F.softmax(s.m[0](x), 1), [randn(32, 20)], nn.Linear(20, 400))
    add(cases, "linear_norm", lambda s, x: s.m[1](s.m[0](x)), [randn(32, 20)], nn.Linear(20, 40), nn.BatchNorm1d(40))
    add(
        cases,
        "conv_norm",
        lambda s, x: F.relu(s.m[1](s.m[0](x))),
        [randn(2, 3, 16, 16)],
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
    )
    add(
        cases,
        "transposed_norm",
        lambda s, x: F.relu(s.m[1](s.m[0](x))),
        [randn(2, 3, 16, 16)],
        nn.ConvTranspose2d(3, 8, 3, stride=2, bias=False),
        nn.BatchNorm2d(8),
    )
    add(
        cases,
        "conv_used_twice",
        lambda s, x: s.m[1](s.m[0](x)) + s.m[0](x),
        [randn(2, 3, 8, 8)],
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
    )
    add(
        cases,
        "conv_min",
        lambda s, x: torch.tanh(s.m[0](x).min(1, keepdim=True)[0]),
        [randn(4, 3, 16, 16)],
        nn.Conv2d(3, 8, 3),
    )
    add(
        cases,
        "conv_group_norm",
        lambda s, x: s.m[1](s.m[0](x)),
        [randn(4, 3, 16, 16)],
        nn.Conv2d(3, 8, 3),
        nn.GroupNorm(2, 8),
    )
    add(
        cases,
        "conv_3d",
        lambda s, x: s.m[0](x).softmax(1).sigmoid(),
        [randn(2, 3, 6, 8, 8)],
        nn.ConvTranspose3d(3, 8, 3, stride=2, padding=1, output_padding=1),
    )
    add(cases, "matmul_4d", lambda s, x, w: torch.matmul(x, w) + 1, [randn(2, 3, 4, 5), randn(5, 6)])
    add(
        cases,
        "bmm",
        lambda s, x, w: torch.baddbmm(x[:, :, :1], x, w, beta=0.5, alpha=2).relu(),
        [randn(2, 4, 5), randn(2, 5, 6)],
    )
    add(cases, "einsum", lambda s, x, w: torch.einsum("bijl,lk->bijk", x, w), [randn(2, 3, 4, 5), randn(5, 6)])
    add(
        cases,
        "attention",
        lambda s, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [randn(2, 3, 16, 8)] * 3,
    )
    add(
        cases,
        "multihead",
        lambda s, x: s.m[0](x, x, x, need_weights=False)[0],
        [randn(2, 10, 16)],
        nn.MultiheadAttention(16, 4, batch_first=True),
    )
    add(cases, "prologue", lambda s, x: s.m[0](F.gelu(x)), [randn(32, 20)], nn.Linear(20, 40))


@family
def movement(cases: Cases) -> None:
    x = randn(4, 30, 50)
    add(cases, "permuted", lambda s, x: x.permute(0, 2, 1).contiguous() * 2, [x])
    add(cases, "reshaped", lambda s, x: x.permute(0, 2, 1).reshape(4, 25, 60) + 1, [x])
    add(cases, "cat", lambda s, x, y: torch.cat([x * 2, y], 1).relu(), [randn(4, 30), randn(4, 5)])
    add(cases, "stack", lambda s, x, y: torch.stack([x * 2, y], 1), [randn(4, 30), randn(4, 30)])
    add(cases, "pad", lambda s, x: F.pad(x, (1, 2, 0, 3), value=1.5), [randn(4, 30)])
    add(cases, "embedding", lambda s, i: s.m[0](i) * 2, [torch.randint(0, 50, (4, 7))], nn.Embedding(50, 16))
    add(
        cases,
        "gather",
        lambda s, x, i: (x.gather(1, i), x[:, [1, -2]] * 2),
        [randn(4, 30), torch.randint(0, 30, (4, 5))],
    )
    add(cases, "triangles", lambda s, x: (torch.tril(x, 1) + 1, torch.triu(x) * 2), [randn(9, 9)])
    add(cases, "slices", lambda s, x: (x[1:, ::3] * 2, x[:, 3] + 1, x.flip(1) * 2, *x.chunk(2, 1)), [randn(4, 30)])
    add(cases, "repeat", lambda s, x: (x.repeat(2, 3) + 1, torch.roll(x, 2, 1) * 2), [randn(4, 6)])
    add(cases, "shuffle", lambda s, x: x.view(4, 2, 15, 50).transpose(1, 2).reshape(4, 30, 50).relu(), [x])
    add(
        cases,
        "constants",
        lambda s, x: (x + torch.arange(50), torch.ones(3), x * torch.tensor([[2.0], [3.0]])),
        [randn(2, 50)],
    )


def odd_numbers(*shape: int) -> torch.Tensor:
    """Normal numbers among NaN, infinities, zeros of both signs and very large and very small ones."""
    odd = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e30, -1e30, 1e-30, -1e-40, 100.0, -100.0]
    )
    x = randn(*shape) * 3
    chosen = torch.rand(*shape) < 0.2
    return torch.where(chosen, odd[torch.randint(0, len(odd), shape)], x)


@family
def odd_values(cases: Cases) -> None:
    x = odd_numbers(20, 70)
    for name in ACTIVATIONS:
        if name != "softsign":
            add(cases, name, one(F, name), [x])
    for name in _ODD.split():
        add(cases, f"torch_{name}", one(torch, name), [x])
    nans = torch.where(randn(20, 64) > 2, float("nan"), randn(20, 64))
    add(
        cases,
        "nan_extremes",
        lambda s, x: (x.max(1)[0], x.argmax(1), x.amin(0), x.argmin(0), x.max(), x.argmax()),
        [nans],
    )
    add(
        cases,
        "nan_rest",
        lambda s, x: (
            x.clamp(-1, 1),
            torch.maximum(x, -x),
            x.clamp(min=0),
            F.max_pool1d(x, 3, 1, 1),
            x.cumsum(1),
            x.nan_to_num(1.0),
        ),
        [nans],
    )
    low = torch.where(randn(20, 64) > 1, -float("inf"), randn(20, 64) * 50)
    add(cases, "masked_softmax", lambda s, x: (F.softmax(x, 1), torch.logsumexp(x, 1), F.log_softmax(x, 0)), [low])
    add(
        cases,
        "large",
        lambda s, x: (F.softmax(x, 1), x.var(1), F.gelu(x), F.softplus(x), F.mish(x)),
        [randn(20, 64) * 300],
    )
