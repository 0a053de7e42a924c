"""Optimizes every example with the template policy, judges the winners with care, and writes the table.

    python benchmarks/cpu.py                 all examples → docs/results/cpu.json and docs/results/cpu.md
    python benchmarks/cpu.py rmsnorm_gelu    only these; the rows of the others stay
    python benchmarks/cpu.py --render        only the table, from the JSON that is there

The machine should do nothing else meanwhile. What a row holds is the careful verdict of the best version that was found
under fp32 with rules `libraries`; a row is written as soon as it is there.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provenance import commit

from cuda_agent import optimize

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
BASELINES = {"eager": "eager", "compile": "torch.compile"}
RULES, PRECISION = "libraries", "fp32"
Row = dict[str, Any]


def main() -> int:
    arguments = _parse()
    rows = _known_rows()
    if not arguments.render:
        for path in _examples(arguments.names):
            print(f"{path.stem} …", flush=True)
            rows[path.stem] = _judge(path, arguments.seconds)
            print(f"  {rows[path.stem]['headline']}", flush=True)
            _write(rows)
    (RESULTS / "cpu.md").write_text(render(json.loads((RESULTS / "cpu.json").read_text())))
    print(f"{RESULTS / 'cpu.md'} is written")
    return 0 if all(map(_correct, rows.values())) else 1


def _correct(row: Row) -> bool:
    return row["verdict"] is not None and row["verdict"]["status"] == "correct"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="EXAMPLE", help="names of examples, without .py; default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for the search on each example (60)")
    parser.add_argument("--render", action="store_true", help="judge nothing")
    return parser.parse_args()


def _examples(names: list[str]) -> list[Path]:
    every = sorted((ROOT / "examples").glob("*.py"))
    unknown = set(names) - {path.stem for path in every}
    if unknown:
        sys.exit(f"no example {', '.join(sorted(unknown))}; there are: {', '.join(path.stem for path in every)}")
    return [path for path in every if not names or path.stem in names]


def _known_rows() -> dict[str, Row]:
    file = RESULTS / "cpu.json"
    rows = json.loads(file.read_text())["rows"] if file.is_file() else []
    existing = {path.stem for path in _examples([])}
    return {row["example"]: row for row in rows if row["example"] in existing}


def _judge(path: Path, seconds: float) -> Row:
    sources = commit()
    began = time.monotonic()
    result = optimize(path, policy="template", rules=RULES, precision=PRECISION, seconds=seconds)
    return {
        "example": path.stem,
        "about": (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": sources,
        "seconds": round(time.monotonic() - began, 1),
        "search_seconds": round(result.trajectory.elapsed_s - result.trajectory.final_seconds, 1),
        "headline": result.headline(),
        "verdict": json.loads(result.verdict.to_json()) if result.verdict else None,
    }


def _write(rows: dict[str, Row]) -> None:
    data = {
        "schema": 1,
        "command": "make bench-cpu",
        "rules": RULES,
        "precision": PRECISION,
        "machine": _machine(),
        "rows": [rows[name] for name in sorted(rows)],
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    scratch = RESULTS / "cpu.json.new"
    scratch.write_text(json.dumps(data, indent=1) + "\n")
    scratch.replace(RESULTS / "cpu.json")


def _machine() -> dict[str, Any]:
    fields = [line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines()]
    model = next((value.strip() for name, _, value in fields if name.strip() == "model name"), platform.machine())
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
    }


def render(data: dict[str, Any]) -> str:
    """The text of cpu.md. Needs nothing but what is in the JSON."""
    rows = data["rows"]
    lines = [
        "# What the template policy gains on a CPU",
        "",
        f"`{data['command']}` on {data['machine']['processor']}, {data['machine']['cores']} cores "
        f"({data['machine']['system']}), {_span(row['date'][:10] for row in rows)}, "
        f"commit {_span(row['commit'] for row in rows)}; {_versions(rows)}.",
        f"Precision {data['precision']}, rules `{data['rules']}`. Each ratio is the baseline's time over the",
        "solution's with its 95 % interval, from the careful verdict of the best version that was found.",
        "The whole verdicts are in [cpu.json](cpu.json).",
        "",
        "| example | status | solution | eager | torch.compile | over eager | over torch.compile | search |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(row) for row in rows),
        "",
        *_summary(rows),
        "",
    ]
    return "\n".join(lines)


def _span(values: Any) -> str:
    distinct = sorted(set(values))
    return ", ".join(distinct) if len(distinct) <= 2 else f"{distinct[0]} … {distinct[-1]}"


def _versions(rows: list[Row]) -> str:
    versions: dict[str, str] = next((row["verdict"]["versions"] for row in rows if row["verdict"]), {})
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _row(row: Row) -> str:
    verdict = row["verdict"]
    if verdict is None:
        return f"| `{row['example']}` | nothing correct | – | – | – | – | – | {row['search_seconds']:.0f} s |"
    times = [_duration(verdict["time_us"][name]) for name in ("candidate", "eager", "compile")]
    ratios = [_ratio(verdict["speedup"][name]) for name in BASELINES]
    flags = f" ({'; '.join(verdict['flags'])})" if verdict["flags"] else ""
    cells = [f"`{row['example']}`", verdict["status"] + flags, *times, *ratios, f"{row['search_seconds']:.0f} s"]
    return f"| {' | '.join(cells)} |"


def _duration(microseconds: float | None) -> str:
    if microseconds is None:
        return "–"
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"


def _ratio(interval: dict[str, float] | None) -> str:
    return "–" if interval is None else f"{interval['median']:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"


def _summary(rows: list[Row]) -> list[str]:
    right = [row["verdict"] for row in rows if _correct(row)]
    lines = [f"{len(right)} of {len(rows)} are correct."]
    for name, label in BASELINES.items():
        intervals = [verdict["speedup"][name] for verdict in right if verdict["speedup"][name]]
        if intervals:
            median, low, high = geometric_mean(intervals)
            count = f"{len(intervals)} of {len(rows)} rows"
            lines.append(f"Geometric mean over {label}: **{median:.2f}** [{low:.2f}, {high:.2f}], {count}.")
    return lines


def geometric_mean(intervals: list[dict[str, float]]) -> tuple[float, float, float]:
    """(mean, low, high) of ratios whose errors are independent: half-widths of the logarithms add in quadrature."""
    count = len(intervals)
    centre = sum(math.log(row["median"]) for row in intervals) / count
    below = math.sqrt(sum(math.log(row["median"] / row["low"]) ** 2 for row in intervals)) / count
    above = math.sqrt(sum(math.log(row["high"] / row["median"]) ** 2 for row in intervals)) / count
    return math.exp(centre), math.exp(centre - below), math.exp(centre + above)


if __name__ == "__main__":
    sys.exit(main())
