"""How good and how fast the judge is: what docs/judge.md quotes.

    python benchmarks/judge.py coverage     the reference against itself: how often the interval holds 1
    python benchmarks/judge.py careful      width of the careful interval; copies that take 10 % longer
    python benchmarks/judge.py seconds      where the time of an evaluation goes
    python benchmarks/judge.py many         64 candidates of one task, a third of them wrong

Each part writes docs/results/judge-PART.json. The machine should do nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from provenance import commit

from cuda_agent.judge import Judge, Settings, machine
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ("rmsnorm_gelu", "gated_residual", "softmax_bias_scale", "group_norm_silu", "masked_cumsum",
            "average_pool_gelu", "conv_subtract_mish", "gemm_swish_tanh_gelu")  # fmt: skip
SLOWER = """
import time
class ModelNew(Model):
    def forward(self, *inputs):
        start = time.perf_counter()
        output = super().forward(*inputs)
        end = start + {factor} * (time.perf_counter() - start)
        while time.perf_counter() < end:
            pass
        return output
"""
NATIVE = """
import torch
from cuda_agent.runtime import load_kernels
kernels = load_kernels("kernels/scale.cpp")
class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernels.scale(x, y, x.numel())
        return y
"""
KERNEL = """
#include <cstdint>
extern "C" void scale(const float* x, float* y, int64_t n) {{
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = {factor}f * x[i] + {shift}f;
}}
"""
SMALL_TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 1.5 + 0.25
def get_inputs():
    return [torch.randn(512, 1024)]
"""


def main() -> int:
    parts: dict[str, Callable[[argparse.Namespace], Any]] = {
        "coverage": coverage, "careful": careful, "seconds": seconds, "many": many,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=sorted(parts))
    parser.add_argument("--repeats", type=int, help="evaluations of each task (coverage 26, careful 4, seconds 6)")
    arguments = parser.parse_args()
    sources = commit()
    result = parts[arguments.part](arguments)
    record = {
        "command": " ".join(["python", "benchmarks/judge.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": sources,
        "device": machine.device(),
        "versions": machine.versions(),
        "result": result,
    }
    path = ROOT / "docs" / "results" / f"judge-{arguments.part}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1))
    return 0


def itself(task: Task, factor: float | None = None) -> Solution:
    """The reference as a solution, or a copy of it that takes `factor` times as long."""
    return Solution.from_source(task.source + (SLOWER.format(factor=factor) if factor else "\nModelNew = Model\n"))


def coverage(arguments: argparse.Namespace) -> dict[str, Any]:
    rows = []
    with tempfile.TemporaryDirectory() as folder, Judge(store=Store(f"{folder}/store.db")) as judge:
        for name in EXAMPLES:
            task = Task.from_file(ROOT / "examples" / f"{name}.py")
            for _ in range(arguments.repeats or 26):
                verdict = judge.evaluate(task, itself(task))
                found = verdict.speedup.eager
                assert found is not None, verdict.headline()
                row = {"task": name, "low": found.low, "median": found.median, "high": found.high,
                       "seconds": verdict.seconds.get("time"), "flags": verdict.flags}  # fmt: skip
                rows.append(row)
            own = [r for r in rows if r["task"] == name]
            held = sum(r["low"] <= 1 <= r["high"] for r in own)
            width = float(np.median([(r["high"] - r["low"]) / r["median"] for r in own]))
            bias = float(np.median([r["median"] for r in own]))
            print(f"{name} {held} of {len(own)}, width {width:.4f}, median {bias:.4f}", flush=True)
    hold = [r["low"] <= 1 <= r["high"] for r in rows]
    widths = [(r["high"] - r["low"]) / r["median"] for r in rows]
    return {
        "intervals": len(rows),
        "hold_1": sum(hold),
        "share": round(float(np.mean(hold)), 4),
        "median_width": round(float(np.median(widths)), 4),
        "median_seconds": round(float(np.median([r["seconds"] for r in rows])), 2),
        "bias_of_median": round(float(np.median([r["median"] for r in rows])), 4),
        "loaded": sum(any("loaded" in f for f in r["flags"]) for r in rows),
        "rows": rows,
    }


def careful(arguments: argparse.Namespace) -> dict[str, Any]:
    rows = []
    names = EXAMPLES[:5]
    with tempfile.TemporaryDirectory() as folder, Judge(store=Store(f"{folder}/store.db")) as judge:
        for name in names:
            task = Task.from_file(ROOT / "examples" / f"{name}.py")
            for _ in range(arguments.repeats or 4):
                verdict = judge.evaluate(task, itself(task, 1.1), Settings(careful=True))
                found, compiled = verdict.speedup.eager, verdict.speedup.compile
                assert found is not None and compiled is not None, verdict.headline()
                row = {"task": name, "low": found.low, "median": found.median, "high": found.high,
                       "width": found.width, "width_over_compile": compiled.width, "seconds": verdict.seconds["time"],
                       "seconds_of_compile": verdict.seconds["baseline"], "flags": verdict.flags}  # fmt: skip
                rows.append(row)
                print(name, {k: round(v, 4) for k, v in row.items() if isinstance(v, float)}, verdict.flags, flush=True)
    return {
        "slower_by": 0.1,
        "judged": len(rows),
        "seen_as_slower": sum(r["high"] < 1 for r in rows),
        "under_6_percent_wide_or_said_loud": sum(
            r["width"] < 0.06 or any("loud" in f for f in r["flags"]) for r in rows
        ),
        "under_6_percent_wide": sum(r["width"] < 0.06 for r in rows),
        "under_6_percent_wide_over_compile": sum(r["width_over_compile"] < 0.06 for r in rows),
        "longest_s": max(r["seconds"] for r in rows),
        "longest_with_compile_s": max(r["seconds"] + r["seconds_of_compile"] for r in rows),
        "rows": rows,
    }


def seconds(arguments: argparse.Namespace) -> dict[str, Any]:
    rows = []
    task = Task.from_source(SMALL_TASK, "small")
    solution = Solution.from_source(NATIVE, {"scale.cpp": KERNEL.format(factor=1.5, shift=0.25)})
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store.db"
        with Judge(store=Store(store)) as judge:
            for i in range(arguments.repeats or 6):
                started = time.monotonic()
                verdict = judge.evaluate(task, solution)
                row = {"evaluation": i, "total": round(time.monotonic() - started, 3), **verdict.seconds}
                rows.append(row)
                print(verdict.headline(), row, flush=True)
        (Path(folder) / "task.py").write_text(SMALL_TASK)
        solution.write(Path(folder) / "solution")
        command = [sys.executable, "-m", "cuda_agent", "evaluate", f"{folder}/task.py", f"{folder}/solution",
                   "--store", store, "--json"]  # fmt: skip
        alone = []
        for _ in range(3):
            started = time.monotonic()
            subprocess.run(command, check=True, capture_output=True)
            alone.append(round(time.monotonic() - started, 2))
    return {"first": rows[0], "resident": rows[-1], "command_alone": alone, "rows": rows}


def many(arguments: argparse.Namespace) -> dict[str, Any]:
    task = Task.from_source(SMALL_TASK, "small")
    solutions = []
    for i in range(64):
        kernel = KERNEL.format(factor=1.5, shift=0.25 if i % 3 else 0.26) + f"// candidate {i} {time.time_ns()}\n"
        solutions.append(Solution.from_source(NATIVE, {"scale.cpp": kernel}))
    with tempfile.TemporaryDirectory() as folder, Judge(store=Store(f"{folder}/store.db")) as judge:
        judge.evaluate(task, solutions[1])
        started = time.monotonic()
        verdicts = judge.evaluate_many(task, solutions)
        spent = time.monotonic() - started
    wrong = [v.status.value for i, v in enumerate(verdicts) if i % 3 == 0]
    right = [v.status.value for i, v in enumerate(verdicts) if i % 3]
    assert set(wrong) == {"wrong"}, wrong
    assert set(right) == {"correct"}, right
    return {"candidates": 64, "wrong": len(wrong), "seconds": round(spent, 1), "builds": "included, none cached"}


if __name__ == "__main__":
    sys.exit(main())
