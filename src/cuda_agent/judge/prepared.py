"""What the judge knows of a task before it sees a candidate: secret inputs and parameters, right answers, doubts.

`prepare` runs the task in a reference worker and refuses what no solution can be judged on: references that are random,
constant, or depend on none of their inputs or of their weights. What depends on only some of them is flagged.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cuda_agent.judge import arrays, contents, expected, values
from cuda_agent.judge import device as devices
from cuda_agent.judge.expected import Expected
from cuda_agent.judge.reference import InvalidTask, Reference
from cuda_agent.judge.sample import Sample
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import FEW_CALLS, Layout
from cuda_agent.judge.values import Value
from cuda_agent.judge.workers import TASK, Workers
from cuda_agent.task import Task

SLOW_S = 0.25
"""A reference slower than this gets fewer samples."""
MAX_PARAMETER_CHECKS = 24
LARGE = 1 / 128
"""Of a device's free memory: inputs and outputs that are larger on average are held as few times as can be."""
PAPER_SAMPLES = 5
TURN_S, MAX_TURN = 0.004, 512


@dataclass
class Prepared:
    task: Task
    folder: Path
    layout: Layout
    seed: int
    """With which reference and candidate are both constructed."""
    states: list[Value]
    samples: list[Sample]
    pool: list[Value]
    """Inputs of which those of timed calls are made."""
    blends: bool
    """Timed calls may get blends of the pool; else each is drawn anew."""
    eager_s: float
    oracle: bool
    flags: list[str] = field(default_factory=list)
    degenerate: str = ""
    """Why the strict protocol refuses this task; the paper's protocol only flags it."""
    guards: dict[str, bool] = field(default_factory=dict)
    ignored: tuple[int, ...] = ()
    """Inputs (by number) that the output does not depend on."""

    @property
    def necessary_bytes(self) -> int:
        """Bytes of the inputs that matter and of the output."""
        specs = self.layout.inputs.specs
        return sum(s.bytes for i, s in enumerate(specs) if i not in self.ignored) + self.layout.outputs_bytes


def prepare(workers: Workers, task: Task, settings: Settings, seeded: bool = False) -> Prepared:
    """Raises InvalidTask. `seeded` leaves parameters as the constructor makes them from the seed."""
    folder = workers.folder("task-")
    task.write(folder)
    with _reference(workers, folder, settings) as reference:
        return _Preparation(workers, reference, task, folder, settings, seeded).run()


@contextlib.contextmanager
def _reference(workers: Workers, folder: Path, settings: Settings) -> Iterator[Reference]:
    worker = workers.reference(folder, settings.device)
    reference: Reference | None = None
    try:
        reference = Reference(worker, settings, workers.inside(folder, TASK))
        yield reference
    finally:
        reference.close() if reference is not None else worker.kill()
        devices.release(settings.device)


class _Preparation:
    def __init__(
        self, workers: Workers, reference: Reference, task: Task, folder: Path, settings: Settings, seeded: bool
    ) -> None:
        self.workers, self.seeded = workers, seeded
        self.reference, self.task, self.folder, self.settings = reference, task, folder, settings
        self.generator = np.random.default_rng(secrets.randbits(63))
        self.flags: list[str] = []
        self.ignored: list[int] = []
        self.has_oracle = True
        self.paper = settings.protocol == "paper"

    def run(self) -> Prepared:
        reference = self.reference
        self.seed = seed = self._seed()
        init = reference.init_inputs(seed)
        base, rows = reference.build(seed)
        pool = [reference.inputs(self._seed()) for _ in range(2)]
        self._check_inputs(pool)
        size, device = pool[0].bytes, self.settings.device
        self.large = device != "cpu" and size > devices.free_bytes(device) * LARGE
        # blends need two; small inputs are cheap, and tensors too small to blend must differ from call to call
        pool += [reference.inputs(self._seed()) for _ in range(0 if self.large else 2 if size > 1 << 16 else 14)]
        turn = 1 if self.large else FEW_CALLS
        self.layout = Layout(pool[0], base, rows, init, outputs_bytes=1 << 40, device=device, turn=turn)
        self.side = reference.attach(self.layout)
        states = self._states(base, rows)
        reference.put_state(states[0])
        eager_s = self._look_at_calls(pool[0], states[0])
        self.large = device != "cpu" and size + self.layout.outputs_bytes > 2 * devices.free_bytes(device) * LARGE
        if self.large:
            del pool[2:]
            self.layout = replace(self.layout, turn=1, lean=True)
            self.side.layout = self.layout
        self.fast = eager_s < SLOW_S and not self.large
        samples = self._samples(pool, states)
        degenerate = self._degenerate(samples, pool, states)
        if self.settings.device == devices.TESTING:
            self.flags.append("judged on host memory under the protocol for devices, which is for tests")
        if degenerate and not self.paper:
            raise InvalidTask(degenerate)
        blends = self._blends(pool, samples[0])
        layout = replace(self.layout, turn=self._calls_of_a_turn(pool))
        return Prepared(
            task=self.task,
            folder=self.folder,
            layout=layout,
            seed=seed,
            states=states,
            samples=[sample.lean() for sample in samples],
            pool=pool,
            blends=blends,
            eager_s=eager_s,
            oracle=self.has_oracle,
            flags=self.flags + ([f"degenerate: {degenerate}"] if degenerate else []),
            degenerate=degenerate,
            guards=reference.worker.guards,
            ignored=tuple(self.ignored),
        )

    def _calls_of_a_turn(self, pool: Sequence[Value]) -> int:
        """On a device: enough for a turn to take TURN_S and for its inputs to be more than its caches hold, as far as
        there is memory for."""
        device, layout = self.settings.device, self.layout
        if device == "cpu" or layout.changed or self.large:
            return 1
        contents = [pool[i % len(pool)] for i in range(FEW_CALLS)]
        self.reference.use("eager")
        seconds = [self.side.calls(contents, [False] * FEW_CALLS)[0].seconds for _ in range(3)]
        wanted = max(TURN_S / max(min(seconds), 1e-6), 2 * devices.l2_bytes(device) / layout.slot_bytes, 2)
        room = devices.free_bytes(device) / 16 / (layout.slot_bytes + 4 * layout.outputs_bytes)
        return max(1, min(round(wanted), MAX_TURN, int(room)))

    def _seed(self) -> int:
        return int(self.generator.integers(1, 1 << 31))

    def _check_inputs(self, pool: Sequence[Value]) -> None:
        if pool[0].specs != pool[1].specs or values.skeleton(pool[0].tree) != values.skeleton(pool[1].tree):
            raise InvalidTask("get_inputs() gives other shapes each time; a task has static shapes")

    def _states(self, base: Value, rows: Sequence[dict[str, Any]]) -> list[Value]:
        if self.paper or self.seeded or not base.specs:
            return [base]
        first = contents.jittered_state(base, rows, self.generator)
        return [first, contents.single_elements(first, rows, self.generator)]

    def _look_at_calls(self, inputs: Value, state: Value) -> float:
        """Two calls under different random states: what a call changes, what it returns, how long it takes."""
        reference = self.reference
        before = reference.ask("buffers")
        kept = [arrays.copied(d) for d in before.data]
        first = reference.run(inputs, seed=1)
        after = reference.ask("buffers")
        names = [row["name"] for row in self.layout.rows]
        changed = tuple(n for n, a, b in zip(names, kept, after.data, strict=True) if not arrays.same(a, b))
        if changed:
            if any(row["parameter"] for row in self.layout.rows if row["name"] in changed):
                raise InvalidTask(f"a call changes the parameter {changed[0]!r}")
            reference.ask("watch", names=list(changed))
        assert first.output is not None
        if not first.output.specs and not values.numbers(first.output.tree):
            raise InvalidTask(f"the output holds no tensor and no number: {values.describe(first.output.tree, ())}")
        self.layout = replace(
            self.layout, outputs_bytes=first.output.bytes, changed=changed, mutates=first.input_changed
        )
        self.side.layout = self.layout
        reference._state = None
        reference.put_state(state)
        second, third = reference.run(inputs, seed=2), reference.run(inputs, seed=3)
        assert second.output is not None and third.output is not None
        self._check_random(second.output, third.output)
        self.layout = replace(
            self.layout,
            aliases=second.aliases_input or third.aliases_input,
            reuses=second.reuses_output or third.reuses_output,
        )
        self.side.layout = self.layout
        return min(second.seconds, third.seconds)

    def _check_random(self, a: Value, b: Value) -> None:
        for (spec, x), (_, y) in zip(expected.ordered(a), expected.ordered(b), strict=True):
            if not spec.floating:
                differ = values.exact(spec, x) != values.exact(spec, y)
                same = int(differ.sum()) <= 0.01 * len(differ)
            else:
                same = not arrays.far_apart(values.floats(spec, x), values.floats(spec, y), 1e-2)
            if not same:
                raise InvalidTask("the reference is random: two calls on the same inputs give different outputs")

    # -- right answers ----------------------------------------------------------------------------------------------

    def _samples(self, pool: Sequence[Value], states: Sequence[Value]) -> list[Sample]:
        if self.paper:
            picked = [pool[i % len(pool)] for i in range(PAPER_SAMPLES)]
            picked[4:] = [self.reference.inputs(self._seed())]
            return [self._sample(f"seed {i}", _given(x), states, 0) for i, x in enumerate(picked)]
        last = len(states) - 1
        plan = [("seed 0", _given(pool[0]), 0), ("seed 2", _given(pool[2 % len(pool)]), last)]
        if self.fast:
            few = contents.swapped(pool[0], self.generator)
            plan[1:1] = [("few elements moved", _given(few), 0), ("seed 1", _given(pool[1]), 0)]
        samples = [self._sample(*plan[0][:2], states, plan[0][2])]
        samples += [self._sample(name, make, states, state).lean() for name, make, state in plan[1:]]
        usual = expected.finite(self._plain(samples[0], states))
        for name in contents.PROBES if self.fast else ("negated", "scaled by 100"):
            if not any(spec.dtype in contents.MANTISSA for spec in pool[0].specs):
                break
            make = functools.partial(contents.mapped, pool[0], contents.PROBES[name])
            try:
                sample = self._sample(f"inputs {name}", make if self.large else _given(make()), states, 0, name)
            except (InvalidTask, expected.Unstable):
                continue
            if (not usual or sample.expected.finite) and expected.varies(sample.expected):
                samples.append(sample.lean())
        return samples

    def _plain(self, sample: Sample, states: Sequence[Value]) -> Value:
        self.reference.put_state(states[sample.state])
        return self.reference.output(sample.inputs)

    def _sample(
        self, name: str, make: Callable[[], Value], states: Sequence[Value], state: int, probe: str = ""
    ) -> Sample:
        """Raises Unstable for a probe only."""
        answer = functools.partial(self._expected, make, states, state, probe)
        again = functools.partial(self._again, answer) if self.large else None
        return Sample(name, make, state, answer(self.reference), again)

    def _again(self, answer: Callable[[Reference], Expected]) -> Expected:
        """The right answer from a worker of its own."""
        devices.release(self.settings.device)
        with _reference(self.workers, self.folder, self.settings) as reference:
            reference.build(self.seed)
            reference.attach(self.layout)
            if self.layout.changed:
                reference.ask("watch", names=list(self.layout.changed))
            return answer(reference)

    def _expected(
        self, make: Callable[[], Value], states: Sequence[Value], state: int, probe: str, reference: Reference
    ) -> Expected:
        inputs = make()
        reference.put_state(states[state])
        runs, oracle = [reference.output(inputs)], None
        if not self.paper:
            runs += [reference.output(inputs, "reordered")] if self.fast else []
            oracle = self._oracle(reference, inputs)
            for _ in range(2 if self.fast else 1):
                moved = contents.moved_by_ulp(states[state], self.generator)
                reference.put_state(
                    states[state].replaced(contents.retied(moved, self.layout.rows, list(moved.data)).data)
                )
                move = contents.nudged if probe in contents.TIES else contents.moved_by_ulp
                runs.append(reference.output(move(inputs, self.generator)))
        extra = [f"the buffer {n}" for n in self.layout.changed]
        extra += [f"input {i} after the call" for i in range(len(inputs.specs))] if self.layout.mutates else []
        try:
            return expected.expect(runs, oracle, extra, self.paper, bool(probe))
        except ValueError as error:
            raise InvalidTask(str(error)) from None

    def _oracle(self, reference: Reference, inputs: Value) -> Value | None:
        if not self.has_oracle or self.layout.mutates:
            return None
        try:
            return reference.output(inputs, "oracle")
        except InvalidTask as error:
            self.has_oracle = False
            self.flags.append(f"no double-precision oracle: {str(error)[:160]}")
            return None

    # -- tasks that cannot be judged --------------------------------------------------------------------------------

    def _degenerate(self, samples: Sequence[Sample], pool: Sequence[Value], states: Sequence[Value]) -> str:
        """Why this task is degenerate, or nothing. Partial independence is flagged."""
        base = samples[0]
        reference = self.reference
        reference.put_state(states[0])
        ignored = []
        for i in range(len(base.inputs.specs)):
            if i < 8 and not self._matters(
                base, base.inputs.replaced(_with(base.inputs.data, i, self._other(pool, i)))
            ):
                ignored.append(i)
        if base.inputs.specs and len(ignored) == len(base.inputs.specs):
            whole = all(not self._matters(base, other) for other in pool[1:3])
            if whole:
                return "the output does not depend on the inputs"
        elif not base.inputs.specs:
            return "get_inputs() gives no tensor, so that the output is constant"
        elif ignored:
            self.ignored = ignored
            self.flags.append(f"the output does not depend on input {', '.join(map(str, ignored))}")
        return self._weightless(base, states)

    def _other(self, pool: Sequence[Value], i: int) -> Any:
        for value in pool[1:]:
            if not arrays.same(value.data[i], pool[0].data[i]):
                return value.data[i]
        spec = pool[0].specs[i]
        if spec.dtype in contents.MANTISSA:
            return contents.mapped(pool[0], lambda x: x * 1.5 + 0.25).data[i]
        return pool[0].data[i]

    def _matters(self, sample: Sample, inputs: Value) -> bool:
        """Whether the reference's answer to `inputs` leaves the sample's bounds."""
        try:
            return sample.expected.mismatch(self.reference.output(inputs)) is not None
        except InvalidTask:
            return True

    def _weightless(self, base: Sample, states: Sequence[Value]) -> str:
        rows = self.layout.rows
        parameters = [i for i, row in enumerate(rows) if row["parameter"] and row["tied"] is None]
        if self.paper or not parameters:
            return ""
        other = contents.jittered_state(states[0], rows, self.generator)
        self.reference.put_state(other)
        if not self._matters(base, base.inputs):
            self.reference.put_state(states[0])
            return "the output does not depend on the weights: with others it stays within the bounds of rounding"
        ignored = []
        if self.fast and len(parameters) <= MAX_PARAMETER_CHECKS:
            for i in parameters:
                data = contents.retied(states[0], rows, _with(states[0].data, i, other.data[i]))
                self.reference.put_state(data)
                if not self._matters(base, base.inputs):
                    ignored.append(rows[i]["name"])
        self.reference.put_state(states[0])
        if ignored:
            self.flags.append(f"the output does not depend on {', '.join(ignored)}")
        return ""

    def _blends(self, pool: Sequence[Value], base: Sample) -> bool:
        """Whether blended inputs are as good as drawn ones: all of them floating, the reference takes them and stays as
        finite as it was."""
        specs = pool[0].specs
        if not all(s.floating for s in specs) or not any(s.numel > contents.TOO_SMALL_TO_BLEND for s in specs):
            return False
        try:
            plain = self.reference.output(pool[0])
            mixed = self.reference.output(contents.blended(pool[0], pool[1], self._seed()))
        except InvalidTask:
            return False
        return expected.finite(mixed) or not expected.finite(plain)


def _given(value: Value) -> Callable[[], Value]:
    return lambda: value


def _with(data: Sequence[Any], i: int, new: Any) -> list[Any]:
    return [new if k == i else d for k, d in enumerate(data)]
