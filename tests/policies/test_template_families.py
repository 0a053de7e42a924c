"""Each family, fused and one kernel for each operation, against torch in fp64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from families import FAMILIES, cases_of
from writing import Together, built, check, randomised

from cuda_agent.policies.template.knobs import Knobs

VARIANTS = {
    "fused": Knobs(),
    "turned": Knobs(stream=True, tile=64, lanes=4, rows=2, keep=False, fold=False, serial=0, cores=3),
}
NAIVE = ("rows", "losses", "pooling", "movement")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family(family: str, variant: str, tmp_path: Path) -> None:
    run(family, VARIANTS[variant], tmp_path)


@pytest.mark.parametrize("family", NAIVE)
def test_one_kernel_for_each_operation(family: str, tmp_path: Path) -> None:
    run(family, Knobs(fuse=False), tmp_path)


def run(family: str, knobs: Knobs, folder: Path) -> None:
    cases = cases_of(family)
    inputs = [value for _, given in cases.values() for value in given]
    model = randomised(Together(cases))
    new, written = built(model, inputs, folder, knobs)
    assert not written.fallbacks
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    with torch.no_grad():
        got, again = new(*inputs), new(*inputs)
    for old, value in zip(before, inputs, strict=True):
        assert not isinstance(value, torch.Tensor) or torch.equal(old.nan_to_num(), value.nan_to_num())
    failures = []
    for name, (case, given) in cases.items():
        try:
            check(case, given, got[name])
            check(case, given, again[name])
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)
