"""A candidate in its worker: constructing it with the task's parameters, and checking what it answers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuda_agent.judge.builds import BuiltSolution
from cuda_agent.judge.prepared import Prepared
from cuda_agent.judge.rejected import Rejected, cleaned, rejected
from cuda_agent.judge.sample import Sample
from cuda_agent.judge.settings import Settings
from cuda_agent.judge.side import Call, Side, side_for
from cuda_agent.judge.values import Value
from cuda_agent.judge.worker.pool import Worker, WorkerFault
from cuda_agent.judge.workers import SOLUTION, Workers
from cuda_agent.verdict import Stage, Status

LEFT_S = 1e-3
"""Longer than a device with nothing left to do takes to say so."""
SLOW_INTERPRETER = (
    "; on a CPU Triton interprets kernels, one program after the other, which is very slow: "
    "judge smaller shapes, or on a GPU"
)
BY_NAME, BY_ORDER, BY_SEED = "name", "order", "seed"


@dataclass
class Match:
    """How the task's parameters find their way into the candidate."""

    how: str
    names: dict[str, str] = field(default_factory=dict)


class Candidate:
    """One fresh worker with a candidate in it. Everything that goes wrong in it is raised as Rejected."""

    def __init__(
        self,
        workers: Workers,
        built: BuiltSolution,
        prepared: Prepared,
        settings: Settings,
        disable_kernels: bool = False,
    ) -> None:
        self.prepared, self.settings, self.folder = prepared, settings, str(built.folder)
        self.extensions, self.inside = built.extensions, workers.inside(built.folder, SOLUTION)
        self.triton = built.triton
        self.prepare_s: float | None = None
        self.stage: Stage = "run"
        self.worker: Worker = workers.candidate(
            built.folder, built.environment, built.entries, settings.device, built.writable
        )
        self.guards = self.worker.guards
        self.side: Side | None = None
        self._state: Value | None = None
        self.match = Match(BY_NAME)
        try:
            self._construct(disable_kernels)
        except BaseException:
            self.close()
            raise

    def _construct(self, disable_kernels: bool) -> None:
        settings, limit = self.settings, self.settings.build_timeout_s
        self._do("importing model_new.py", "load", limit, precision=settings.precision, rules=settings.rules,
                 disable_kernels=disable_kernels, extensions=self.extensions, triton=self.triton,
                 folder=self.inside)  # fmt: skip
        try:
            first = max(settings.call_timeout_s, settings.first_call_timeout_s)
            limits = first if self.triton == "interpreted" else settings.call_timeout_s, first
            self.side = side_for(self.worker, self.prepared.layout, *limits)
        except WorkerFault as fault:
            raise self._rejected(fault, "starting the worker") from None
        arguments = self.side.put_init()
        reply = self._do("the constructor of ModelNew", "build", limit, seed=self.prepared.seed, mode=settings.mode,
                         **arguments)  # fmt: skip
        self.match = match_state(self.prepared, reply.get("state"))
        self.side.names = self.match.names
        if self.prepared.layout.changed:
            names = [self.match.names.get(n, n) for n in self.prepared.layout.changed]
            self._do("ModelNew", "watch", 30.0, names=names)

    def put_state(self, state: Value) -> None:
        """Loads `state` in place and lets the candidate prepare; nothing where it was built from the same seed."""
        if state is self._state:
            return
        assert self.side is not None
        try:
            if self.match.how == BY_SEED or not state.specs:
                reply = self.worker.ask("prepare", timeout_s=self.settings.build_timeout_s).reply
            else:
                reply = self.side.put_state(state, prepare=True).reply
        except WorkerFault as fault:
            raise self._rejected(fault, "ModelNew.prepare()") from None
        if type(reply.get("prepare_s")) is float:
            self.prepare_s = reply["prepare_s"]
        self._state = state

    def prepare_as_made(self) -> None:
        """Lets the candidate prepare with the parameters that its constructor made."""
        self._do("ModelNew.prepare()", "prepare", self.settings.build_timeout_s)

    def calls(self, inputs: Sequence[Value], copy: Sequence[bool]) -> list[Call]:
        assert self.side is not None
        try:
            return self.side.calls(inputs, copy)
        except WorkerFault as fault:
            raise self._rejected(fault, "ModelNew.forward()") from None

    def check(self, sample: Sample, states: Sequence[Value]) -> Call:
        """One checked call; raises Rejected if its answer is wrong."""
        self.put_state(states[sample.state])
        call = self.calls([sample.inputs], [True])[0]
        self.look_at(call)
        assert call.output is not None
        fault = sample.answer().mismatch(call.output)
        if fault is not None:
            where = "" if sample.name.startswith("seed") else f" (on {sample.name})"
            raise Rejected(Status.WRONG, "compare", fault + where)
        return call

    def warm_up(self, sample: Sample, states: Sequence[Value]) -> None:
        """A call whose answer is checked, where it does not have to be made again for that."""
        if sample.again is None:
            self.check(sample, states)
            return
        self.put_state(states[sample.state])
        self.look_at(self.calls([sample.inputs], [False])[0])

    def look_at(self, call: Call) -> None:
        """What must hold for every call, whatever its outputs are."""
        layout = self.prepared.layout
        if not call.frozen:
            raise Rejected(Status.FORBIDDEN, "time", "a process of it could not be stopped between calls")
        if call.left_s > LEFT_S:
            message = "it leaves work on a stream that the current stream does not wait for; let the current one wait"
            raise Rejected(Status.FORBIDDEN, "compare", message)
        if call.persisting:
            message = "it sets a part of the L2 cache aside for itself, which outlasts the call"
            raise Rejected(Status.FORBIDDEN, "compare", message)
        if call.input_changed and not layout.mutates:
            raise Rejected(Status.WRONG, "compare", "it changes its inputs, which the reference does not")
        if call.aliases_input and not layout.aliases:
            raise Rejected(
                Status.WRONG, "compare", "an output shares its input's memory, which the reference's does not"
            )
        if call.reuses_output and not layout.reuses:
            message = "an output lies in the memory of an earlier output that is still in use; allocate it in each call"
            raise Rejected(Status.WRONG, "compare", message)

    def audit(self, sample: Sample, states: Sequence[Value]) -> tuple[dict[str, int], list[str]]:
        """The operators that one uncounted call ran, and the libraries that came in with the candidate."""
        self.put_state(states[sample.state])
        self.calls([sample.inputs], [False])
        reply = self._do(
            "ModelNew.forward()", "audit", self.settings.call_timeout_s, slot=0, nonce=secrets.token_hex(8)
        )
        operators, libraries = reply.get("operators"), reply.get("libraries")
        if not isinstance(operators, dict) or not isinstance(libraries, list):
            raise Rejected(Status.FORBIDDEN, "run", "its worker hides which operators it calls")
        return {str(k): 1 for k in operators}, [str(path) for path in libraries]

    def _do(self, doing: str, op: str, timeout_s: float, **arguments: Any) -> dict[str, Any]:
        try:
            return self.worker.ask(op, timeout_s=timeout_s, **arguments).reply
        except WorkerFault as fault:
            raise self._rejected(fault, doing) from None

    def _rejected(self, fault: WorkerFault, doing: str) -> Rejected:
        found = rejected(fault, self.stage, doing, self.worker.output.text())
        slow = SLOW_INTERPRETER if found.status is Status.TIMEOUT and self.triton == "interpreted" else ""
        return Rejected(found.status, found.stage, cleaned(found.message, self.folder) + slow)

    def close(self) -> None:
        self.side.close() if self.side is not None else self.worker.kill()


def match_state(prepared: Prepared, rows: Any) -> Match:
    """By name where the candidate has all of the task's names; else in order where shapes agree; else by seed."""
    wanted = [(row, spec) for row, spec in zip(prepared.layout.rows, prepared.layout.state.specs, strict=True)]
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise Rejected(Status.FORBIDDEN, "run", "its worker hides its parameters")
    have = {str(r.get("name")): (r.get("shape"), r.get("dtype")) for r in rows}
    form = {row["name"]: (list(spec.shape), spec.dtype) for row, spec in wanted}
    if all(have.get(name) == shape for name, shape in form.items()):
        return Match(BY_NAME)
    own = [str(r.get("name")) for r in rows if r.get("tied") is None]
    theirs = [row["name"] for row, _ in wanted if row["tied"] is None]
    if len(own) == len(theirs) and all(have[a] == form[b] for a, b in zip(own, theirs, strict=True)):
        return Match(BY_ORDER, dict(zip(theirs, own, strict=True)))
    misfit = [n for n, shape in form.items() if n in have and have[n] != shape]
    if misfit:
        name = misfit[0]
        message = f"the parameter {name!r} is {have[name][1]}{have[name][0]}, expected {form[name][1]}{form[name][0]}"
        raise Rejected(Status.WRONG, "run", message)
    return Match(BY_SEED)


def order_of_checks(samples: Sequence[Sample], generator: np.random.Generator) -> list[Sample]:
    """A random order, the first sample once more at the end: an answer must not depend on earlier calls."""
    order = [samples[i] for i in generator.permutation(len(samples))]
    return [*order, samples[0]]


def guards_of(*sources: Mapping[str, bool]) -> dict[str, bool]:
    """The guards that were active in all of the workers."""
    names = sorted({name for source in sources for name in source})
    return {name: all(source.get(name, False) for source in sources if source) for name in names}
