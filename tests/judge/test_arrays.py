"""On torch tensors the judge's arithmetic is the same as on numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cuda_agent.judge import arrays, contents, expected, values
from cuda_agent.judge.values import Spec, Value

DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64")


def pair(dtype: str, shape: tuple[int, ...] = (16, 40), seed: int = 0, odd: bool = False) -> tuple[Value, Value]:
    """The same tensor as a value of numpy's and as one of torch's; `odd` ones hold NaN and infinities."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    if odd:
        x.view(-1)[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    x = x.to(getattr(torch, dtype)) if dtype != "int64" else (x * 100).long()
    spec = Spec(dtype, tuple(x.shape), tuple(x.stride()), x.numel() * x.element_size())
    data = x.reshape(-1).view(torch.uint8)
    return Value(["t", 0], (spec,), (data.numpy().copy(),)), Value(["t", 0], (spec,), (data.clone(),))


def as_numpy(x: Any) -> np.ndarray[Any, Any]:
    return x if isinstance(x, np.ndarray) else x.numpy()


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_read_alike(dtype: str, odd: bool) -> None:
    host, device = pair(dtype, odd=odd and dtype != "complex64")
    found = [values.floats(v.specs[0], v.data[0]) for v in (host, device)]
    np.testing.assert_array_equal(*map(as_numpy, found))
    again = [contents.from_float(v.specs[0], contents.to_float(v.specs[0], v.data[0])) for v in (host, device)]
    assert odd or ((again[0] == host.data[0]).all() and (again[1] == device.data[0]).all())


def test_strided_elements_are_read_in_logical_order() -> None:
    spec = Spec("float32", (3, 4), (1, 3), 48)
    data = np.arange(12, dtype=np.float32).view(np.uint8)
    host, device = values.floats(spec, data), values.floats(spec, torch.from_numpy(data.copy()))
    np.testing.assert_array_equal(host, device.numpy())
    assert host[1] == 3


@pytest.mark.parametrize("name", contents.PROBES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_probes_give_the_same(name: str, dtype: str) -> None:
    found = [contents.mapped(value, contents.PROBES[name]) for value in pair(dtype)]
    a, b = (as_numpy(values.floats(v.specs[0], v.data[0])) for v in found)
    np.testing.assert_allclose(a, b, rtol=1e-2 if dtype == "bfloat16" else 2e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_move_by_one_ulp_is_that(dtype: str) -> None:
    _, device = pair(dtype)
    moved = contents.moved_by_ulp(device, np.random.default_rng(0))
    size = {"float16": 2, "bfloat16": 2, "float64": 8}.get(dtype, 4)
    steps = arrays.integers(moved.data[0], size).long() - arrays.integers(device.data[0], size).long()
    assert set(steps.tolist()) == {-1, 0, 1}


def test_blends_take_every_element_from_one_of_the_two_at_secret_places() -> None:
    ones, twos = (torch.full((4096,), x).view(torch.uint8) for x in (1.0, 2.0))
    spec = Spec("float32", (4096,), (1,), 16384)
    a, b = Value(["t", 0], (spec,), (ones,)), Value(["t", 0], (spec,), (twos,))
    first, second = (contents.blended(a, b, seed).data[0].view(torch.float32) for seed in (1, 2))
    assert set(first.tolist()) == {1.0, 2.0} and not torch.equal(first, second)
    assert 0.3 < float((first == 1).float().mean()) < 0.7
    ordered = torch.arange(4096.0).view(torch.uint8)
    mixed = contents.blended(a.replaced([ordered]), a.replaced([ordered]), 3).data[0].view(torch.float32)
    assert sorted(set(mixed.tolist())) != mixed.tolist()


def test_swapped_elements_stay_the_same_ones() -> None:
    for value in pair("float32", (300, 300)):
        moved = contents.swapped(value, np.random.default_rng(1))
        before, after = (as_numpy(values.floats(v.specs[0], v.data[0])) for v in (value, moved))
        assert (before != after).any() and (np.sort(before) == np.sort(after)).all()


@pytest.mark.parametrize("name", ["weight", "running_var"])
def test_states_are_jittered_and_single_elements_changed(name: str) -> None:
    rows = [{"name": name, "parameter": name == "weight", "tied": None}]
    for value in pair("float32"):
        if name == "running_var":
            value = contents.mapped(value, lambda x: abs(x) + 0.1)
        other = contents.jittered_state(value, rows, np.random.default_rng(0))
        one = contents.single_elements(value, rows, np.random.default_rng(0))
        x, y, z = (as_numpy(values.floats(v.specs[0], v.data[0])) for v in (value, other, one))
        assert (x != y).mean() > 0.99 and 1 <= (x != z).sum() <= 3
        assert name == "weight" or (y.min() > 0 and z.min() > 0)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_bounds_are_the_same(dtype: str, odd: bool, paper: bool) -> None:
    leaves = []
    for i in (0, 1):
        runs = [pair(dtype, odd=odd)[i]]
        runs.append(contents.mapped(runs[0], lambda x: x * (1 + 3e-3 if dtype.endswith("16") else 1 + 1e-6)))
        oracle = contents.mapped(runs[0], lambda x: x * (1 + 1e-7))
        leaves.append(expected.expect(runs, oracle, [], paper).leaves[0])
    host, device = leaves
    assert isinstance(host, expected.FloatLeaf) and isinstance(device, expected.FloatLeaf)
    np.testing.assert_allclose(host.want, as_numpy(device.want), rtol=2e-7)
    np.testing.assert_allclose(host.bound, as_numpy(device.bound), rtol=0.02)
    assert host.share == pytest.approx(device.share, rel=0.02)


@pytest.mark.parametrize("odd", [False, True])
def test_mismatches_are_told_alike(odd: bool) -> None:
    messages = []
    for i in (0, 1):
        value = pair("float32", odd=odd)[i]
        want = expected.expect([value], value, [])
        assert want.mismatch(value) is None
        bad = contents.mapped(value, lambda x: x + (abs(x) > 2.5) * 0.5)
        messages.append(want.mismatch(bad))
        nothing = contents.mapped(value, lambda x: x * float("nan"))
        assert "elements are off" in str(want.mismatch(nothing))
    assert messages[0] == messages[1] and "elements are off" in str(messages[0])


def test_integers_are_compared_exactly() -> None:
    messages = []
    for value in pair("int64"):
        want = expected.expect([value], None, [])
        other = arrays.copied(value.data[0])
        arrays.integers(other, 8)[5] += 1
        assert want.mismatch(value) is None
        messages.append(want.mismatch(value.replaced([other])))
    assert messages[0] == messages[1] and str(messages[0]).startswith("the output: 1 of 640 elements differ")


@pytest.mark.parametrize("share", [1e-6, 1e-3])
def test_what_lies_outside_is_counted_alike(share: float) -> None:
    counts = []
    for value in pair("float32", odd=True):
        x = values.floats(value.specs[0], value.data[0])
        y = arrays.copied(x)
        y[10:20] = y[10:20] * (1 + 1e-4) + 1e-4
        y[0] = 0.0
        counts.append(arrays.outside(x, y, share))
    assert counts[0] == counts[1] == (11 if share < 1e-5 else 1)


@pytest.mark.parametrize("odd", [False, True])
def test_what_is_made_and_compared_in_parts_is_the_same(odd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    _, device = pair("float32", (50, 41), odd=odd)
    found = []
    for length in (None, 100):
        if length is not None:
            monkeypatch.setattr(arrays, "PART", length)
        runs = [device, contents.mapped(device, lambda x: x * (1 + 1e-6))]
        want = expected.expect(runs, device, [])
        bad = contents.mapped(device, lambda x: x + (abs(x) > 2.5) * 0.5)
        leaf = want.leaves[0]
        assert isinstance(leaf, expected.FloatLeaf)
        x, y = (values.floats(v.specs[0], v.data[0]) for v in (device, bad))
        found.append((leaf.want, leaf.bound, leaf.share, want.mismatch(device), want.mismatch(bad),
                      arrays.outside(x, y, 1e-3), arrays.finite_rms(x), arrays.far_apart(x, y, 0.01)))  # fmt: skip
    (want, bound, *rest), (parts_want, parts_bound, *parts_rest) = found
    torch.testing.assert_close(parts_want, want, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(parts_bound, bound, rtol=1e-4, atol=0)
    assert parts_rest[1:3] == rest[1:3] and parts_rest[3] == rest[3] > 0 and parts_rest[5] is rest[5] is True
    assert parts_rest[0] == pytest.approx(rest[0], rel=1e-4) and parts_rest[4] == pytest.approx(rest[4])
    ordered = torch.arange(2050.0).view(torch.uint8)
    mixed = contents.blended(device.replaced([ordered]), device.replaced([ordered + 0]), 3).data[0].view(torch.float32)
    assert sorted(set(mixed.tolist())) != mixed.tolist() and float((mixed == torch.arange(2050.0)).float().mean()) > 0.2
    moved = contents.moved_by_ulp(device, np.random.default_rng(0))
    steps = moved.data[0].view(torch.int32).long() - device.data[0].view(torch.int32).long()
    assert set(steps.tolist()) == {-1, 0, 1}


def test_the_same_bytes_are_the_same() -> None:
    for value in pair("float16", (7, 3)):
        other = arrays.copied(value.data[0])
        assert arrays.same(value.data[0], other)
        other[-1] ^= 1
        assert not arrays.same(value.data[0], other)


def test_a_batch_is_new_each_time_and_made_of_the_pool() -> None:
    pool = []
    for draw in range(3):
        x = torch.arange(4096.0) + 10000 * draw
        small = torch.tensor([float(draw)])
        specs = (Spec("float32", (4096,), (1,), 16384), Spec("float32", (1,), (1,), 4))
        pool.append(Value(["u", ["t", 0], ["t", 1]], specs, tuple(t.view(torch.uint8) for t in (x, small))))
    batch = contents.Batch(pool, 5)
    generator = np.random.default_rng(0)
    seen = []
    for _ in range(2):
        batch.renew(generator)
        for value in batch:
            x, small = (data.clone().view(torch.float32) for data in value.data)
            assert len(set((x // 10000).tolist())) == 2 and float(small) in (0.0, 1.0, 2.0)
            assert not any(torch.equal(x, other) for other in seen)
            seen.append(x)
