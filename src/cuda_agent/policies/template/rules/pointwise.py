"""Operators on single elements: arithmetic, comparisons, activations, selections."""

from __future__ import annotations

import math
from typing import Any

from cuda_agent.policies.template.graph import Operator
from cuda_agent.policies.template.ir import Node
from cuda_agent.policies.template.lower import Dtype, Lowering, NoRule, rule

ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")


def is_float(dtype: str) -> bool:
    return dtype.startswith("float")


def promoted(*values: Any) -> str:
    """The dtype in which tensors and numbers are compared; numbers and 0-d tensors weigh less than tensors."""
    tensors = [v for v in values if isinstance(v, Node)]
    strong = [t.dtype for t in tensors if t.shape] or [t.dtype for t in tensors]
    best = max(strong, key=ORDER.index)
    weak = [t.dtype for t in tensors] + [
        "float32" if isinstance(v, float) else "int64" for v in values if not isinstance(v, Node | bool)
    ]
    if any(is_float(w) for w in weak) and not is_float(best):
        return "float32"
    return "int64" if best == "bool" and any(w != "bool" for w in weak) else best


def common(c: Lowering, op: Operator, *values: Any) -> list[Node]:
    """The arguments in the result's dtype."""
    return [c.scalar(v, str(op.dtype)) for v in values]


_UNARY = """neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh erf erfc sigmoid silu mish hardswish hardsigmoid floor ceil round trunc sign relu"""
UNARY = _UNARY.split()
ROUNDING = {"floor", "ceil", "round", "trunc"}


def _unary(c: Lowering, op: Operator, x: Node) -> Node:
    name = op.op.split(".")[1]
    if name == "round" and not op.op.endswith(".default"):
        raise NoRule("round to decimals")
    if name in ROUNDING and not is_float(x.dtype):
        return x
    return c.b.point(name, *common(c, op, x))


for _name in UNARY:
    rule(_name)(_unary)


@rule("square")
def square(c: Lowering, op: Operator, x: Node) -> Node:
    return c.b.point("mul", x, x)


@rule("frac")
def frac(c: Lowering, op: Operator, x: Node) -> Node:
    return c.b.point("sub", x, c.b.point("trunc", x))


@rule("sgn")
def sgn(c: Lowering, op: Operator, x: Node) -> Node:
    return c.b.point("sign", x)


@rule("isnan", "isinf", "isfinite")
def classify(c: Lowering, op: Operator, x: Node) -> Node:
    name = op.op.split(".")[1]
    if not is_float(x.dtype):
        return c.b.const(name == "isfinite", "bool", x.shape)
    return c.b.point(name, x, dtype="bool")


@rule("logical_not", "bitwise_not")
def logical_not(c: Lowering, op: Operator, x: Node) -> Node:
    if op.dtype == "bool":
        return c.b.point("logical_not", c.b.cast(x, "bool"))
    return c.b.point("bitwise_not", x)


@rule("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__")
def bits(c: Lowering, op: Operator, x: Any, y: Any) -> Node:
    name = op.op.split(".")[1].strip("_").removeprefix("logical_").removeprefix("bitwise_")
    return c.b.point(f"bit_{name}", *common(c, op, x, y))


@rule("add", "sub")
def add(c: Lowering, op: Operator, x: Any, y: Any, alpha: float = 1) -> Node:
    a, b = common(c, op, x, y)
    if op.dtype == "bool":
        raise NoRule("sums of booleans")
    name = op.op.split(".")[1]
    return c.b.point(name, a, b if alpha == 1 else c.b.point("mul", b, c.scalar(alpha, b.dtype)))


@rule("rsub")
def rsub(c: Lowering, op: Operator, x: Node, y: Any, alpha: float = 1) -> Node:
    return add(c, op.model_copy(update={"op": "aten.sub.Tensor"}), y, x, alpha=alpha)  # type: ignore[no-any-return]


@rule("mul", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "copysign", "fmod", "remainder")
def binary(c: Lowering, op: Operator, x: Any, y: Any) -> Node:
    name = op.op.split(".")[1]
    if op.dtype == "bool":
        name = {"mul": "bit_and", "maximum": "bit_or", "minimum": "bit_and"}.get(name, name)
    return c.b.point(name, *common(c, op, x, y))


@rule("div", "true_divide", "floor_divide")
def div(c: Lowering, op: Operator, x: Any, y: Any, rounding_mode: str | None = None) -> Node:
    mode = "floor" if "floor_divide" in op.op else rounding_mode
    a, b = common(c, op, x, y)
    if mode is None:
        if isinstance(y, float | int) and y and math.frexp(y)[0] in (0.5, -0.5):
            return c.b.point("mul", a, c.scalar(1 / y, a.dtype))  # exact for powers of two
        return c.b.point("div", a, b)
    return c.b.point(f"div_{mode}", a, b)


COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


@rule(*COMPARE)
def compare(c: Lowering, op: Operator, x: Any, y: Any) -> Node:
    dtype = promoted(x, y)
    return c.b.point(op.op.split(".")[1], c.scalar(x, dtype), c.scalar(y, dtype), dtype="bool")


@rule("pow")
def power(c: Lowering, op: Operator, x: Any, y: Any) -> Node:
    a = c.scalar(x, str(op.dtype))
    if isinstance(y, Node):
        return c.b.point("pow", a, c.b.cast(y, a.dtype))
    simple = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if is_float(a.dtype) and float(y) in simple:
        return c.b.point(simple[float(y)], a)
    if float(y).is_integer() and 1 <= abs(y) <= 8 and (y > 0 or is_float(a.dtype)):
        product = integer_power(c, a, abs(int(y)))
        return product if y > 0 else c.b.point("reciprocal", product)
    if y == 0:
        return c.b.const(1, a.dtype, a.shape)
    return c.b.point("pow", a, c.b.const(y, a.dtype))


def integer_power(c: Lowering, x: Node, n: int) -> Node:
    if n == 1:
        return x
    half = integer_power(c, x, n // 2)
    whole = c.b.point("mul", half, half)
    return c.b.point("mul", whole, x) if n % 2 else whole


@rule("where")
def where(c: Lowering, op: Operator, condition: Node, x: Any, y: Any) -> Node:
    return c.b.point("where", c.b.cast(condition, "bool"), *common(c, op, x, y), dtype=str(op.dtype))


@rule("masked_fill")
def masked_fill(c: Lowering, op: Operator, x: Node, mask: Node, value: Any) -> Node:
    return c.b.point("where", mask, c.scalar(value, x.dtype), x, dtype=x.dtype)


@rule("clamp", "clamp_min", "clamp_max")
def clamp(c: Lowering, op: Operator, x: Node, low: Any = None, high: Any = None, **named: Any) -> Node:
    low, high = named.get("min", low), named.get("max", high)
    if op.op.split(".")[1] == "clamp_max":
        low, high = None, low
    x = c.scalar(x, str(op.dtype))
    if low is not None:
        x = c.b.point("maximum", x, c.scalar(low, x.dtype))
    return x if high is None else c.b.point("minimum", x, c.scalar(high, x.dtype))


@rule("hardtanh")
def hardtanh(c: Lowering, op: Operator, x: Node, low: float = -1, high: float = 1) -> Node:
    return clamp(c, op, x, low, high)  # type: ignore[no-any-return]


@rule("relu6")
def relu6(c: Lowering, op: Operator, x: Node) -> Node:
    return clamp(c, op, x, 0, 6)  # type: ignore[no-any-return]


@rule("gelu")
def gelu(c: Lowering, op: Operator, x: Node, approximate: str = "none") -> Node:
    return c.b.point("gelu_tanh" if approximate == "tanh" else "gelu", x)


@rule("leaky_relu")
def leaky_relu(c: Lowering, op: Operator, x: Node, slope: float = 0.01) -> Node:
    scaled = c.b.point("mul", x, c.scalar(slope, x.dtype))
    return c.b.point("where", c.b.point("gt", x, c.scalar(0, x.dtype), dtype="bool"), x, scaled, dtype=x.dtype)


@rule("prelu", "_prelu_kernel")
def prelu(c: Lowering, op: Operator, x: Node, weight: Node) -> Node:
    if weight.numel > 1 and op.op.startswith("aten.prelu"):
        weight = c.b.reshape(weight, (weight.numel,) + (1,) * (len(x.shape) - 2))
    scaled = c.b.point("mul", x, c.b.reshape(weight, ()) if weight.numel == 1 else weight)
    return c.b.point("where", c.b.point("gt", x, c.scalar(0, x.dtype), dtype="bool"), x, scaled, dtype=x.dtype)


@rule("elu", "celu", "selu")
def elu(c: Lowering, op: Operator, x: Node, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Node:
    name = op.op.split(".")[1]
    if name == "selu":
        alpha, scale, input_scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0
    if name == "celu":
        input_scale = 1 / alpha
    return c.b.point("elu", x, *(c.scalar(v, x.dtype) for v in (alpha, scale, input_scale)))


@rule("softplus")
def softplus(c: Lowering, op: Operator, x: Node, beta: float = 1, threshold: float = 20) -> Node:
    scaled = x if beta == 1 else c.b.point("mul", x, c.scalar(beta, x.dtype))
    soft = c.b.point("softplus", scaled)
    if beta != 1:
        soft = c.b.point("mul", soft, c.scalar(1 / beta, x.dtype))
    return c.b.point(
        "where", c.b.point("gt", scaled, c.scalar(threshold, x.dtype), dtype="bool"), x, soft, dtype=x.dtype
    )


@rule("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(c: Lowering, op: Operator, x: Node) -> Any:
    result = c.b.point("neg", c.b.point("softplus", c.b.point("neg", x)))
    return result if op.shape is not None else (result, None)


@rule("logit")
def logit(c: Lowering, op: Operator, x: Node, eps: float | None = None) -> Node:
    if eps is not None:
        x = clamp(c, op, x, eps, 1 - eps)
    return c.b.point("log", c.b.point("div", x, c.b.point("sub", c.scalar(1, x.dtype), x)))


@rule("hardshrink", "softshrink", "threshold")
def shrink(c: Lowering, op: Operator, x: Node, limit: float = 0.5, value: float = 0.0) -> Node:
    name = op.op.split(".")[1]

    def number(value: float) -> Node:
        return c.scalar(value, x.dtype)

    above = c.b.point("gt", x, number(limit), dtype="bool")
    if name == "threshold":
        low = c.b.point("le", x, number(limit), dtype="bool")
        return c.b.point("where", low, number(value), x, dtype=x.dtype)
    below = c.b.point("lt", x, number(-limit), dtype="bool")
    if name == "hardshrink":
        inside = c.b.point(
            "bit_and", c.b.point("ge", x, number(-limit), dtype="bool"), c.b.point("le", x, number(limit), dtype="bool")
        )
        return c.b.point("where", inside, number(0), x, dtype=x.dtype)
    middle = c.b.point("mul", x, number(0))  # NaN stays NaN
    upper = c.b.point("where", above, c.b.point("sub", x, number(limit)), middle, dtype=x.dtype)
    return c.b.point("where", below, c.b.point("add", x, number(limit)), upper, dtype=x.dtype)


@rule("lerp")
def lerp(c: Lowering, op: Operator, x: Node, y: Node, weight: Any) -> Node:
    w = c.scalar(weight, x.dtype)
    return c.b.point("add", x, c.b.point("mul", w, c.b.point("sub", y, x)))


@rule("addcmul", "addcdiv")
def addc(c: Lowering, op: Operator, x: Node, y: Node, z: Node, value: float = 1) -> Node:
    x, y, z = common(c, op, x, y, z)
    term = c.b.point("mul" if "addcmul" in op.op else "div", y, z)
    return c.b.point("add", x, term if value == 1 else c.b.point("mul", term, c.scalar(value, x.dtype)))


@rule("nan_to_num")
def nan_to_num(
    c: Lowering,
    op: Operator,
    x: Node,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Node:
    largest = 3.4028234663852886e38 if x.dtype == "float32" else 1.7976931348623157e308

    def number(value: float) -> Node:
        return c.scalar(value, x.dtype)

    inf = float("inf")
    high, low = (largest if posinf is None else posinf), (-largest if neginf is None else neginf)
    y = c.b.point("where", c.b.point("isnan", x, dtype="bool"), number(nan or 0.0), x, dtype=x.dtype)
    y = c.b.point("where", c.b.point("eq", x, number(inf), dtype="bool"), number(high), y, dtype=x.dtype)
    return c.b.point("where", c.b.point("eq", x, number(-inf), dtype="bool"), number(low), y, dtype=x.dtype)


@rule("_to_copy", "to", "convert_element_type")
def to_copy(c: Lowering, op: Operator, x: Node, dtype: Dtype | None = None, *_: Any, **__: Any) -> Node:
    return c.b.cast(x, str(op.dtype))
