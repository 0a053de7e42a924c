"""Every case of the corpus through the real judge: attacks must fail or gain nothing, honest solutions must pass."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import cases
from corpus.cases import Bait, Case

from cuda_agent.judge import Judge, Settings
from cuda_agent.runtime import BuildCache
from cuda_agent.sandbox import Limits
from cuda_agent.solution import Solution
from cuda_agent.verdict import Status, Verdict

TASKS = cases.tasks()
CASES = sorted(
    cases.load("attacks") + cases.load("honest"), key=lambda c: (c.task, c.mode, c.precision, c.kind, c.name)
)
NEAR = (0.7, 1.35)
"""A reported ratio must reach into this range around the ratio that the solution really has."""
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(scope="module")
def bait() -> Iterator[Bait]:
    """Secrets in a file, in the environment and in another process's; two listeners; a place for marks."""
    home = Path.home() / "tmp"
    home.mkdir(parents=True, exist_ok=True)
    words = tuple(f"{secrets.token_hex(12)}" for _ in range(3))
    reached = secrets.token_hex(12)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(_folder(home)))
        (place / "secret.txt").write_text("".join(f"user{n} = {word};\n" for n, word in enumerate(words)))
        # read-only for others as such files are, so that only the sandbox protects it from another user
        (place / "secret.txt").chmod(0o644)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        name = secrets.token_hex(8)
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(f"\0{name}")
        local.listen()
        neighbour = stack.enter_context(_neighbour(words[2]))
        assert neighbour.poll() is None
        os.environ[cases.KEY] = words[2]
        stack.callback(os.environ.pop, cases.KEY)
        port = listener.getsockname()[1]
        yield Bait(str(place / "secret.txt"), str(place / "marker"), port, name, reached, words)


@contextlib.contextmanager
def _folder(home: Path) -> Iterator[str]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="corpus-", dir=home) as folder:
        os.chmod(folder, 0o777)
        yield folder


@contextlib.contextmanager
def _neighbour(secret: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user whose environment holds the key from its start."""
    argv = [sys.executable, "-c", "import time; time.sleep(3600)"]
    process = subprocess.Popen(argv, env={**os.environ, cases.KEY: secret})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def judge(bait: Bait, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """One resident judge for all; afterwards none of its processes may be left, wherever they have detached to."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _descendants()
    cache = BuildCache(tmp_path_factory.mktemp("cache"))
    limits = Limits(memory_bytes=2 << 30, scratch_bytes=256 << 20, file_bytes=512 << 20)
    with Judge(sandbox="auto", cache=cache, limits=limits) as judge:
        yield judge
    ends = time.monotonic() + 10
    while (left := _descendants() - before) and time.monotonic() < ends:
        time.sleep(0.1)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert not left, f"still running: {[_command(pid) for pid in left]}"
    assert not os.path.exists(bait.marker), "something outside the sandbox was written"


def _marked(case: Case) -> Any:
    marks = [pytest.mark.slow] * case.slow + [pytest.mark.timing] * case.measure
    return pytest.param(case, id=f"{case.kind}-{case.name}", marks=marks)


@pytest.mark.parametrize("case", [_marked(case) for case in CASES])
def test_case(case: Case, judge: Judge, bait: Bait) -> None:
    if case.dangerous and not _isolated(judge):
        pytest.skip("it needs a sandbox, and this machine allows none")
    for _ in range(case.repeat):
        _check(case, judge.evaluate(TASKS[case.task], case.solution(bait), _settings(case)), bait)


def _settings(case: Case) -> Settings:
    inline = any("load_inline" in text for text in case.solution().files.values())
    return Settings(
        rules=case.rules,
        precision=case.precision,
        mode=case.mode,
        measure=case.measure,
        call_timeout_s=5.0,
        first_call_timeout_s=60.0 if case.name.startswith("compile") else 5.0,
        build_timeout_s=200.0 if inline or case.name.startswith("compile") else 12.0,
    )


def _check(case: Case, verdict: Verdict, bait: Bait) -> None:
    said = f"{case.kind}/{case.name}: {verdict.status.value} at {verdict.stage}: {verdict.message}"
    _no_secret(verdict, bait)
    assert verdict.status.value in case.expect, f"{said}\nexpected one of {case.expect}"
    if not verdict.correct:
        assert verdict.message and "Traceback (most recent" not in verdict.message.splitlines()[0], said
        assert case.says in verdict.message, said
    assert not os.path.exists(bait.marker), f"{said}\nit has left a mark outside the sandbox"
    if verdict.correct and case.measure:
        _honest_ratio(case, verdict, said)


def _honest_ratio(case: Case, verdict: Verdict, said: str) -> None:
    ratio = verdict.speedup.eager
    assert ratio is not None or verdict.flags, said
    if ratio is not None and case.truth is not None:
        low, high = (case.truth * bound for bound in NEAR)
        # an attack that slows itself has gained nothing either
        assert ratio.low < high, f"{said}\nreported {ratio}, really about {case.truth}"
        assert ratio.high > low or case.kind == "attacks", f"{said}\nreported {ratio}, really about {case.truth}"
    if case.ratio_below is not None:
        assert ratio is not None and ratio.high < case.ratio_below, f"{said}\nreported {ratio}"


def _no_secret(verdict: Verdict, bait: Bait) -> None:
    """None of the secrets, plainly or in an encoding that an attack uses."""
    text = verdict.to_json()
    for word in (*bait.secrets, bait.reached):
        shapes = [word, word[::-1], word.encode().hex()]
        # base64 at each of the three alignments, without the characters that depend on what is beside it
        shapes += [base64.b64encode(b"x" * n + word.encode()).decode()[4:-4] for n in range(3)]
        assert not any(shape in text for shape in shapes), f"the verdict holds a secret: {text}"


def _isolated(judge: Judge) -> bool:
    verdict = judge.evaluate(TASKS["gelu"], _control(), Settings(measure=False))
    return bool(verdict.guards.get("namespaces"))


def _control() -> Solution:
    return next(c for c in CASES if c.kind == "honest" and c.name == "frees_memory").solution()


def test_after_all_attacks_an_honest_solution_is_right(judge: Judge) -> None:
    """Nothing planted, poisoned or patched by the cases before reaches a later evaluation."""
    verdict = judge.evaluate(TASKS["gelu"], _control(), Settings(measure=False))
    assert verdict.status is Status.CORRECT, verdict.message


def test_neighbours_of_attacks_are_judged_as_if_alone(judge: Judge, bait: Bait) -> None:
    """A crash, a fork bomb and a memory bomb beside honest candidates of one task change nothing for these."""
    if not _isolated(judge):
        pytest.skip("it needs a sandbox, and this machine allows none")
    by_name = {case.name: case for case in CASES if case.task == "affine_relu"}
    order = ["native_threads", "fork_bomb", "autotuning_kernels", "memory_bomb", "numpy_any", "segfault", "lazy_load"]
    settings = Settings(measure=False, call_timeout_s=5.0, first_call_timeout_s=5.0)
    solutions = [by_name[name].solution(bait) for name in order]
    verdicts = judge.evaluate_many(TASKS["affine_relu"], solutions, settings)
    for name, verdict in zip(order, verdicts, strict=True):
        assert verdict.status.value in by_name[name].expect, f"{name}: {verdict.status.value}: {verdict.message}"


@pytest.mark.parametrize("name", TASKS)
def test_reference_is_right(name: str, judge: Judge) -> None:
    """Each task is valid, and its own reference under the name ModelNew is a right solution."""
    source = TASKS[name].source.replace("class Model(", "class ModelNew(")
    verdict = judge.evaluate(TASKS[name], Solution.from_source(source), Settings(measure=False))
    assert verdict.status is Status.CORRECT, verdict.message


def _descendants() -> set[tuple[int, str]]:
    """(process, start time) of all living processes below this one."""
    parents: dict[int, tuple[int, str, str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents[int(entry)] = (int(fields[1]), fields[19], fields[0])
    found: set[tuple[int, str]] = set()
    for pid, (parent, start, state) in parents.items():
        above = parent
        while above in parents and above != os.getpid():
            above = parents[above][0]
        if above == os.getpid() and state != "Z":
            found.add((pid, start))
    return found


def _command(process: tuple[int, str]) -> str:
    with contextlib.suppress(OSError):
        return f"{process[0]} {Path(f'/proc/{process[0]}/cmdline').read_text()[:200]!r}"
    return str(process[0])
