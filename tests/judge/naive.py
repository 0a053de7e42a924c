"""Two small judges to compare the real one with; both run in a folder with model.py and model_new.py.

`naive` is how kernels are commonly checked: one process, seed 42, `allclose` at 1e-2, the same inputs timed 20 times;
it prints "[PASS]" and its exit status is the verdict. That it accepts an attack shows that the attack is real.
`plain` trusts the solution and looks closely: three seeds, jittered parameters, exact types, inputs and buffers
afterwards. That it accepts an honest case shows that the case is honest.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.solution import Solution
from cuda_agent.task import Task

SUCCESS = "[PASS] verify success"


@dataclass(frozen=True)
class Outcome:
    accepted: bool
    ratio: float | None
    output: str


class Checker:
    """Runs `naive` (option: the order) or `plain` (options: mode, precision), each time in a fresh process that is
    forked from one that has imported torch and nothing else."""

    def __init__(self) -> None:
        argv = [sys.executable, str(Path(__file__).resolve())]
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "2"}
        self._server = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        self._server.communicate()

    def check(
        self, how: str, task: Task, solution: Solution, folder: Path, *options: str, timeout_s: float = 60
    ) -> Outcome:
        """`folder` is filled with the task's and the solution's files."""
        for files in (solution.files, task.files):
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text)
        assert self._server.stdin is not None and self._server.stdout is not None
        print(json.dumps([str(folder), timeout_s, how, *options]), file=self._server.stdin, flush=True)
        status = int(self._server.stdout.readline())
        output = (folder / "output.txt").read_bytes()[-40000:].decode(errors="replace")
        ratio = re.search(r"^ratio ([0-9.e+-]+)$", output, re.MULTILINE)
        return Outcome(status == 0 and SUCCESS in output, float(ratio[1]) if ratio else None, output)


def serve() -> None:
    """A line of JSON in, an exit status out. The child leaves this function and goes on to its check."""
    import torch

    torch.set_num_threads(2)
    for line in sys.stdin:
        folder, timeout_s, how, *options = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(folder)
            {"naive": naive, "plain": plain}[how](*options)
            return
        print(_wait(child, timeout_s), flush=True)


def _become(folder: str) -> None:
    os.setsid()
    os.chdir(folder)
    sys.path.insert(0, ".")
    os.environ["HOME"] = folder
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def _wait(child: int, timeout_s: float) -> int:
    ends = time.monotonic() + timeout_s
    done, status = 0, 1
    while not done and time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not done:
        os.waitpid(child, 0)
        return 1
    return status


def naive(order: str) -> None:
    import torch

    torch.manual_seed(42)
    task = _module("model")
    arguments = task.get_init_inputs() if hasattr(task, "get_init_inputs") else []
    model = task.Model(*arguments).eval()
    torch.manual_seed(42)
    candidate = _module("model_new").ModelNew(*arguments).eval()
    _load_state(model, candidate)
    torch.manual_seed(42)
    inputs = task.get_inputs()
    with torch.no_grad():
        if order == "candidate first":
            actual = candidate(*inputs)
            expected = model(*inputs)
        elif order == "freed":
            for _ in range(3):
                model(*inputs)
            actual = candidate(*inputs)
            expected = model(*inputs)
        else:
            expected = model(*inputs)
            actual = candidate(*inputs)
        if not _close(actual, expected):
            print("[FAIL] outputs differ")
            sys.exit(1)
        baseline = _median_time(model, inputs)
        _say(f"ratio {baseline / max(_median_time(candidate, inputs), 1e-9)}")
    _say(SUCCESS)


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def _close(actual: Any, expected: Any) -> bool:
    import torch

    for a, e in zip(_flat(actual), _flat(expected), strict=False):
        if isinstance(e, torch.Tensor):
            if not torch.allclose(a.float(), e.float(), atol=1e-2, rtol=1e-2, equal_nan=True):
                return False
        elif a != e and not (isinstance(e, float) and abs(a - e) <= 1e-2 * (1 + abs(e))):
            return False
    return True


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, list | tuple) else [value]


def _median_time(function: Any, inputs: list[Any]) -> float:
    times = []
    for _ in range(20):
        started = time.perf_counter()
        function(*inputs)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def plain(mode: str, precision: str) -> None:
    import torch

    if precision != "fp32":
        torch.set_default_dtype(torch.bfloat16 if precision == "bf16" else torch.float16)
    task, solution = _module("model"), _module("model_new")
    arguments = task.get_init_inputs() if hasattr(task, "get_init_inputs") else []
    torch.manual_seed(7)
    model = task.Model(*arguments).train(mode == "train")
    torch.manual_seed(7)
    candidate = solution.ModelNew(*arguments).train(mode == "train")
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            if model.state_dict().keys() == candidate.state_dict().keys():
                _jitter(model)
                candidate.load_state_dict(model.state_dict())
            if hasattr(candidate, "prepare"):
                candidate.prepare()
            theirs = task.get_inputs()
            ours = copy.deepcopy(theirs)
            for _ in range(2):
                expected, actual = model(*theirs), candidate(*ours)
                _same("output", actual, expected)
                _same("inputs", ours, theirs)
                if model.state_dict().keys() == candidate.state_dict().keys():
                    _same("state", *(dict(sorted(m.state_dict().items())) for m in (candidate, model)))
    _say(SUCCESS)


def _jitter(model: Any) -> None:
    import torch

    for name, value in model.state_dict().items():
        if value.is_floating_point():
            noise = 1 + 0.3 * torch.rand_like(value) if "var" in name else 1 + 0.3 * torch.randn_like(value)
            value.mul_(noise).add_(0.1 * torch.rand_like(value))


def _kind(value: Any) -> type:
    """Parameters count as tensors and named tuples as tuples."""
    import torch

    if isinstance(value, torch.nn.Parameter):
        return torch.Tensor
    return tuple if isinstance(value, tuple) else type(value)


def _same(where: str, actual: Any, expected: Any) -> None:
    import torch

    assert _kind(actual) is _kind(expected), f"{where}: {type(actual)} is no {type(expected)}"
    if isinstance(expected, dict):
        assert list(actual) == list(expected), f"{where}: keys {list(actual)}"
        for key in expected:
            _same(f"{where}[{key!r}]", actual[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), f"{where}: {len(actual)} elements"
        for index, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _same(f"{where}[{index}]", a, b)
    elif isinstance(expected, torch.Tensor):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype, f"{where}: {actual.dtype}"
        if expected.is_floating_point() or expected.is_complex():
            rms = torch.nan_to_num(expected.abs().double(), posinf=0, neginf=0).square().mean().sqrt().item()
            rough = 2e-2 if expected.dtype in (torch.bfloat16, torch.float16) else 3e-5
            torch.testing.assert_close(
                actual, expected, rtol=rough, atol=rough * rms if expected.numel() else 0, equal_nan=True
            )
        else:
            assert torch.equal(actual, expected), f"{where}: integers differ"
    elif isinstance(expected, float):
        assert math.isclose(actual, expected, rel_tol=1e-5, abs_tol=1e-6), f"{where}: {actual} is not {expected}"
    else:
        assert actual == expected, f"{where}: {actual} is not {expected}"


def _load_state(model: Any, candidate: Any) -> None:
    if model.state_dict().keys() == candidate.state_dict().keys():
        candidate.load_state_dict(model.state_dict())
    if hasattr(candidate, "prepare"):
        candidate.prepare()


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve()
