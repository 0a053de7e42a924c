"""Each family, fused and one kernel for each operation, against torch in fp64."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from families import FAMILIES, Cases, cases_of
from writing import Together, built, check, randomised, traced

from cuda_agent.policies.template.graph import Graph
from cuda_agent.policies.template.knobs import Knobs

VARIANTS = {
    "fused": Knobs(),
    "turned": Knobs(stream=True, tile=64, lanes=4, rows=2, keep=False, fold=False, serial=0, cores=3),
}
NAIVE = ("rows", "movement")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family(family: str, variant: str, tmp_path: Path) -> None:
    assert not failures(family, VARIANTS[variant], tmp_path)


@pytest.mark.parametrize("family", NAIVE)
def test_one_kernel_for_each_operation(family: str, tmp_path: Path) -> None:
    assert not failures(family, Knobs(fuse=False), tmp_path)


@cache
def prepared(family: str) -> tuple[Cases, list[Any], Together, Graph]:
    """The cases of a family, their inputs, and one module of them all with its graph: tracing takes longest."""
    cases = cases_of(family)
    inputs = [value for _, given in cases.values() for value in given]
    model = Together(cases)
    randomised(model)
    return cases, inputs, model, traced(model, inputs)


def failures(family: str, knobs: Knobs, folder: Path) -> list[str]:
    """What is wrong with the answers to the cases of a family, twice in a row."""
    cases, inputs, model, graph = prepared(family)
    new, written = built(model, inputs, folder, knobs, graph)
    assert not written.fallbacks
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    with torch.no_grad():
        got, again = new(*inputs), new(*inputs)
    for old, value in zip(before, inputs, strict=True):
        assert not isinstance(value, torch.Tensor) or torch.equal(old.nan_to_num(), value.nan_to_num())
    found = []
    for name, (case, given) in cases.items():
        try:
            check(case, given, got[name])
            check(case, given, again[name])
        except AssertionError as error:
            found.append(f"{name}: {error}")
    return found
