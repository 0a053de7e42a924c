"""Bounds and messages: what passes and what does not, on arrays made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cuda_agent.judge import contents, values
from cuda_agent.judge.expected import expect, varies
from cuda_agent.judge.values import Spec, Value


def value(*arrays: np.ndarray[Any, Any], tree: Any = None) -> Value:
    specs, data = [], []
    for x in arrays:
        dtype = {"bool": "bool"}.get(x.dtype.name, x.dtype.name)
        stride = tuple(s // x.itemsize for s in x.strides)
        specs.append(Spec(dtype, x.shape, stride, x.nbytes))
        data.append(np.frombuffer(x.tobytes(), np.uint8))
    return Value(tree or (["t", 0] if len(arrays) == 1 else ["u", *[["t", i] for i in range(len(arrays))]]),
                 tuple(specs), tuple(data))  # fmt: skip


def reference(x: np.ndarray[Any, Any]) -> Any:
    plain = x.astype(np.float32)
    return expect([value(plain), value(np.nextafter(plain, np.float32(9)))], value(x.astype(np.float64)), ())


X = np.random.default_rng(0).standard_normal(1000)


def test_float32_rounding_passes_and_lower_precision_does_not() -> None:
    right = reference(X)
    assert right.mismatch(value(X.astype(np.float32))) is None
    assert right.mismatch(value((X * (1 + 3e-6)).astype(np.float32))) is None
    assert right.mismatch(value(X.astype(np.float16).astype(np.float32))) is not None
    tf32 = (X.astype(np.float32).view(np.uint32) & 0xFFFFE000).view(np.float32)
    assert right.mismatch(value(tf32)) is not None


def test_zeros_do_not_pass_for_tiny_outputs() -> None:
    assert reference(X * 1e-7).mismatch(value(np.zeros(1000, np.float32))) is not None


def test_message_says_where_and_how_far() -> None:
    wrong = X.astype(np.float32).copy()
    wrong[17] += 1
    message = reference(X).mismatch(value(wrong))
    assert message is not None
    assert "1 of 1000" in message
    assert "[17]" in message
    factor = reference(X).mismatch(value((X * 1.5).astype(np.float32)))
    assert factor is not None
    assert "factor 1.5" in factor


def test_nan_and_infinities_must_be_where_the_reference_has_them() -> None:
    x = X.astype(np.float32).copy()
    x[3], x[4], x[5] = np.nan, np.inf, -np.inf
    right = expect([value(x)], value(x.astype(np.float64)), ())
    assert right.mismatch(value(x)) is None
    for index, other in ((3, 0.0), (4, np.nan), (4, -np.inf), (5, np.inf), (9, np.nan), (9, np.inf)):
        wrong = x.copy()
        wrong[index] = other
        assert right.mismatch(value(wrong)) is not None, (index, other)


def test_integers_are_exact_except_where_references_disagree() -> None:
    a = np.arange(5000, dtype=np.int64)
    b = a.copy()
    b[7] = 8
    right = expect([value(a), value(b)], None, ())
    assert right.mismatch(value(b)) is None
    wrong = a.copy()
    wrong[9] = 0
    assert "[9]" in str(right.mismatch(value(wrong)))


def test_structure_shape_and_dtype_are_named() -> None:
    right = expect([value(X.astype(np.float32), np.ones(3, np.int64))], None, ())
    assert "float32[1000]" in str(right.mismatch(value(X.astype(np.float32))))
    assert "shape" in str(right.mismatch(value(X[:-1].astype(np.float32), np.ones(3, np.int64))))
    assert "float64" in str(right.mismatch(value(X, np.ones(3, np.int64))))
    tree = ["l", ["t", 0], ["t", 1]]
    assert right.mismatch(value(X.astype(np.float32), np.ones(3, np.int64), tree=tree)) is not None


def test_the_output_that_is_wrong_is_named_as_python_would_index_it() -> None:
    x, y = X.astype(np.float32), np.ones(3, np.float32)
    tree = ["d", [["s", "out"], ["l", ["t", 0], ["n"]]], [["s", "mean"], ["t", 1]]]
    right = expect([value(x, y, tree=tree)], None, ())
    assert str(right.mismatch(value(x, y + 1, tree=tree))).startswith("output['mean']")
    assert str(right.mismatch(value(x + 1, y, tree=tree))).startswith("output['out'][0]")


def test_numbers_in_the_output() -> None:
    x = X.astype(np.float32)
    right = expect([value(x, tree=["u", ["t", 0], ["f", (2.5).hex()], ["i", "3"]])], None, ())
    assert right.mismatch(value(x, tree=["u", ["t", 0], ["f", (2.5 + 1e-7).hex()], ["i", "3"]])) is None
    assert right.mismatch(value(x, tree=["u", ["t", 0], ["f", (2.6).hex()], ["i", "3"]])) is not None
    assert right.mismatch(value(x, tree=["u", ["t", 0], ["f", (2.5).hex()], ["i", "4"]])) is not None


def test_a_constant_output_does_not_vary() -> None:
    assert varies(reference(X))
    assert not varies(reference(np.full(1000, 3.0)))
    assert not varies(reference(np.full(1000, 3.0) + 1e-9 * X))


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=9), elements=st.floats(-1e6, 1e6, width=32)))
def test_what_is_right_passes_and_a_moved_element_does_not(x: np.ndarray[Any, Any]) -> None:
    right = expect([value(x)], value(x.astype(np.float64)), ())
    assert right.mismatch(value(x)) is None
    wrong = x.copy()
    wrong.flat[x.size // 2] += np.float32(1e-3) * (np.abs(x).max() + 1)
    assert right.mismatch(value(wrong)) is not None


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(0, 2**62))
def test_blends_hold_only_what_was_drawn(count: int, seed: int) -> None:
    a, b = np.arange(count, dtype=np.float32), -np.arange(1, count + 1, dtype=np.float32)
    mixed = contents.blended(value(a), value(b), seed)
    got = values.floats(mixed.specs[0], mixed.data[0])
    assert set(got) <= set(a) | set(b)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(allow_nan=True, allow_infinity=True, width=32)))
def test_moving_by_an_ulp_keeps_zeros_infinities_and_nan(x: np.ndarray[Any, Any]) -> None:
    before = value(x)
    after = contents.moved_by_ulp(before, np.random.default_rng(0))
    got = after.data[0].view(np.float32)
    special = ~np.isfinite(x) | (x == 0)
    assert np.array_equal(got[special], x[special], equal_nan=True)
    assert np.isfinite(got[~special]).all()
    assert (np.abs(got[~special].astype(np.float64) - x[~special]) <= np.spacing(np.abs(x[~special])) * 1.01).all()


@pytest.mark.parametrize("probe", sorted(contents.PROBES))
def test_probes_leave_integers_alone(probe: str) -> None:
    before = value(np.arange(9, dtype=np.float32), np.arange(9, dtype=np.int64))
    after = contents.mapped(before, contents.PROBES[probe])
    assert np.array_equal(after.data[1], before.data[1])
    assert not np.array_equal(after.data[0], before.data[0])
