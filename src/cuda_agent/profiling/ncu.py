"""Nsight Compute's command line: which counters are read, how it is started, and what its table says.

The table is the raw page as CSV: lines that begin with `==`, a row of names, a row of units, one row per launch. Values
have thousands separators; what a chip does not count is `n/a`, `nan` or empty, and then unknown here.
"""

from __future__ import annotations

import csv
import io
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.profiling.process import Ran, Tool

LOG = "ncu.csv"
MAX_LAUNCHES = 48

TIME, DRAM_READ, DRAM_WRITE = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
_OPERATIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
FLOPS = {
    "fp32": {_OPERATIONS.format(op): n for op, n in (("fadd", 1), ("fmul", 1), ("ffma", 2))},
    "fp16": {_OPERATIONS.format(op): n for op, n in (("hadd", 1), ("hmul", 1), ("hfma", 2))},
    "fp64": {_OPERATIONS.format(op): n for op, n in (("dadd", 1), ("dmul", 1), ("dfma", 2))},
}
"""By arithmetic: each counter, and the operations of one of its instructions. Tensor cores are not among them."""
THROUGHPUT = {
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "multiprocessor": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor_cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "l1_hits": "l1tex__t_sector_hit_rate.pct",
    "l2_hits": "lts__t_sector_hit_rate.pct",
}
ACHIEVED, THEORETICAL = "sm__warps_active.avg.pct_of_peak_sustained_active", "sm__maximum_warps_per_active_cycle_pct"
LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "block size",
    "launch__occupancy_limit_blocks": "blocks per multiprocessor",
}
"""Blocks that a multiprocessor could hold if there were this limit alone."""
REGISTERS, WAVES = "launch__registers_per_thread", "launch__waves_per_multiprocessor"
SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
LOAD_USE, STORE_USE = _PER_SECTOR.format("ld"), _PER_SECTOR.format("st")
CONFLICTS = tuple(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st"))
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
LOCAL_SECTORS = tuple(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum" for op in ("ld", "st"))
THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    _STALLED.format(reason): reason
    for reason in (
        "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
        "math_pipe_throttle", "membar", "mio_throttle", "no_instruction", "short_scoreboard", "sleeping",
        "tex_throttle", "wait",
    )
}  # fmt: skip
METRICS = (
    TIME, DRAM_READ, DRAM_WRITE, *(name for names in FLOPS.values() for name in names), *THROUGHPUT.values(),
    ACHIEVED, THEORETICAL, *LIMITS, REGISTERS, WAVES, *SHARED, LOAD_USE, STORE_USE, *CONFLICTS, WAVEFRONTS,
    *LOCAL_SECTORS, THREADS, *STALLS,
)  # fmt: skip

_UNITS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_UNITS |= {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
"""To nanoseconds and bytes; `--print-units base` asks for these, and not every version obeys for each metric."""


@dataclass(frozen=True)
class Launch:
    """A row of the table. Times are in nanoseconds, sizes in bytes; a metric that is not known is not in `values`."""

    kernel: str
    grid: list[int] | None
    block: list[int] | None
    values: Mapping[str, float]

    def total(self, *names: str) -> float | None:
        """The sum of those that are known; None where none is."""
        known = [self.values[name] for name in names if name in self.values]
        return sum(known) if known else None


def tool() -> Tool | None:
    """How the driver is started behind ncu; None where there is no ncu."""
    found = shutil.which("ncu")
    if found is None:
        places = sorted([*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), *Path("/usr/local").glob("cuda*/bin/ncu")])
        if not places:
            return None
        found = str(places[-1])
    return Tool(
        argv=[
            found, "--csv", "--page", "raw", "--print-units", "base", "--log-file", LOG, "--profile-from-start", "off",
            "--target-processes", "application-only", "--launch-count", str(MAX_LAUNCHES), "--clock-control", "none",
            "--metrics", ",".join(METRICS),
        ],
        files=[LOG],
        readable=homes(found),
    )  # fmt: skip


def homes(program: str) -> list[str]:
    """Folders, besides the system's, that a program of NVIDIA's may keep its parts in."""
    folders = [os.path.dirname(os.path.realpath(program)), "/opt/nvidia"]
    return [folder for folder in folders if os.path.isdir(folder) and not folder.startswith(("/usr/", "/bin"))]


def why_nothing(ran: Ran) -> str:
    """One line on why ncu gave no figures."""
    said = f"{ran.files.get(LOG, '')}\n{ran.finished.stdout}\n{ran.finished.stderr}"
    if "ERR_NVGPUCTRPERM" in said:
        return (
            "no permission for the GPU's counters: an administrator allows them with the driver's option "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    if ran.finished.timed_out:
        return "ncu did not come to its end in time"
    errors = [line.partition("==ERROR==")[2].strip() for line in said.splitlines() if "==ERROR==" in line]
    if errors:
        return f"ncu: {errors[0]}"
    if "No kernels were profiled" in said:
        return "the call launches no kernel"
    return f"ncu gave no figures (exit code {ran.finished.returncode})"


def parse(text: str) -> list[Launch]:
    """The launches in ncu's table, in their order; none where there is no table."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    rows = csv.reader(io.StringIO("\n".join(line for line in lines[start:] if not line.startswith("=="))))
    names = next(rows)
    units: list[str] | None = None
    launches = []
    for row in rows:
        if len(row) != len(names):
            continue
        cells = dict(zip(names, row, strict=True))
        if units is None and not cells["ID"]:
            units = row
        elif cells["ID"].isdigit():
            launches.append(_launch(cells, dict(zip(names, units or [""] * len(names), strict=True))))
    return launches


def _launch(cells: Mapping[str, str], units: Mapping[str, str]) -> Launch:
    values = {}
    for name in METRICS:
        number = _number(cells.get(name, ""))
        if number is not None:
            values[name] = number * _UNITS.get(units.get(name, "").partition("/")[0], 1.0)
    return Launch(
        cells.get("Kernel Name", "?"), _sizes(cells.get("Grid Size")), _sizes(cells.get("Block Size")), values
    )


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _sizes(text: str | None) -> list[int] | None:
    """[x, y, z] of "(x, y, z)"."""
    parts = (text or "").strip("() ").split(",")
    return [int(part) for part in parts] if all(part.strip().isdigit() for part in parts) else None


def by_kernel(launches: list[Launch]) -> Iterator[list[Launch]]:
    """The launches of each kernel, in the order of their first."""
    groups: dict[str, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(launch.kernel, []).append(launch)
    yield from groups.values()
