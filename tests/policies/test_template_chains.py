"""Random chains of operations over random shapes against torch in fp64: fusion must not change what is computed."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from writing import Case, Together, built, check

from cuda_agent.policies.template.knobs import Knobs

Op = Callable[[torch.Tensor, random.Random], torch.Tensor]


def _dims(x: torch.Tensor, draw: random.Random) -> list[int]:
    count = draw.randint(1, x.dim())
    return sorted(draw.sample(range(x.dim()), count))


def _permuted(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    return x.permute(draw.sample(range(x.dim()), x.dim()))


def _folded(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    return x.flatten(0, 1) if x.dim() > 2 else x.unsqueeze(draw.randint(0, 2))


def _sliced(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    dim = draw.randrange(x.dim())
    return x.narrow(dim, 1, x.shape[dim] - 1) if x.shape[dim] > 2 else x


OPS: list[Op] = [
    lambda x, r: torch.tanh(x) * 2,
    lambda x, r: F.gelu(x),
    lambda x, r: torch.exp(-x.abs()),
    lambda x, r: torch.where(x > 0.1, x, x * 0.3),
    lambda x, r: torch.clamp(x, -0.9, 1.1) + 0.25,
    lambda x, r: x * torch.sigmoid(x),
    lambda x, r: x - x.mean(_dims(x, r), keepdim=True),
    lambda x, r: x / (x.abs().sum(_dims(x, r), keepdim=True) + 1),
    lambda x, r: x / torch.sqrt(x.var(_dims(x, r), unbiased=False, keepdim=True) + 0.1),
    lambda x, r: F.softmax(x, r.randrange(x.dim())),
    lambda x, r: x + torch.logsumexp(x, r.randrange(x.dim()), keepdim=True),
    lambda x, r: x - x.amax(_dims(x, r), keepdim=True),
    lambda x, r: x.cumsum(r.randrange(x.dim())) * 0.1,
    lambda x, r: x.flip(_dims(x, r)),
    _permuted,
    _folded,
    _sliced,
    lambda x, r: torch.cat([x, x * 0.5], r.randrange(x.dim())),
]
ENDS: list[Op] = [
    lambda x, r: x,
    lambda x, r: x.sum(_dims(x, r)),
    lambda x, r: x.amin(_dims(x, r)),
    lambda x, r: x.mean(),
    lambda x, r: x.contiguous().view(-1)[1:],
]


def chain(seed: int, length: int) -> Callable[..., torch.Tensor]:
    """A function of one tensor that applies the same operations each time."""

    def function(case: Case, x: torch.Tensor) -> torch.Tensor:
        draw = random.Random(seed)
        for _ in range(length):
            x = draw.choice(OPS)(x, draw)
        return draw.choice(ENDS)(x, draw)

    return function


SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 8, 17, 32]), min_size=2, max_size=4).map(tuple)
CHAIN = st.tuples(st.integers(0, 10**6), st.integers(1, 6), SHAPES)
KNOBS = st.builds(
    Knobs,
    stream=st.booleans(),
    keep=st.booleans(),
    tile=st.sampled_from([0, 16, 64]),
    serial=st.sampled_from([0, 24576]),
    cores=st.sampled_from([1, 2, 8]),
)


@settings(
    max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=[Phase.generate]
)
@given(chains=st.lists(CHAIN, min_size=16, max_size=16), knobs=KNOBS)
def test_random_chains(chains: list[tuple[int, int, tuple[int, ...]]], knobs: Knobs) -> None:
    """Many chains in one module, so that one compilation serves them all."""
    torch.manual_seed(len(chains))
    cases = {
        f"{i}: seed {seed}, {length} operations on {shape}": (Case(chain(seed, length)), [torch.randn(shape)])
        for i, (seed, length, shape) in enumerate(chains)
    }
    inputs = [value for _, given in cases.values() for value in given]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        new, written = built(Together(cases).eval(), inputs, Path(folder), knobs)
        assert not written.fallbacks
        got = new(*inputs)
    for name, (case, given_) in cases.items():
        try:
            check(case, given_, got[name], slack=2e-6)  # where all cancels, nothing but rounding is left
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
