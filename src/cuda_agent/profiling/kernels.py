"""From what tools count to `Kernel`s: launches of one kernel are taken together, what is a percentage by its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuda_agent.profiling import ncu
from cuda_agent.profiling.driver import OWN
from cuda_agent.profiling.ncu import Launch
from cuda_agent.profiling.profile import Access, Kernel, Occupancy, Stall, Throughput

SECTOR_BYTES = 32
MAX_STALLS = 3
MAX_NAME = 200


def from_launches(launches: Sequence[Launch]) -> list[Kernel]:
    """Those with a time, the slowest first."""
    timed = [launch for launch in launches if launch.values.get(ncu.TIME)]
    all_us = sum(launch.values[ncu.TIME] for launch in timed) * 1e-3
    kernels = [_kernel(group, all_us) for group in ncu.by_kernel(timed)]
    return sorted(kernels, key=lambda kernel: -kernel.time_us)


def from_rows(rows: Any) -> list[Kernel]:
    """From the driver's rows, which are somebody else's: what is no row is left out."""
    known = []
    for row in rows if isinstance(rows, list) else []:
        try:
            known.append((str(row["name"])[:MAX_NAME], float(row["calls"]), float(row["us"])))
        except (KeyError, TypeError, ValueError):
            continue
    all_us = sum(us for _, _, us in known)
    return [
        Kernel(name=name.removeprefix(OWN), launches=calls, time_us=us, share=us / all_us if all_us else 0.0)
        for name, calls, us in known
    ]


def _kernel(group: Sequence[Launch], all_us: float) -> Kernel:
    first = group[0]
    time_us = sum(launch.values[ncu.TIME] for launch in group) * 1e-3
    flops = {name: found for name, of in ncu.FLOPS.items() if (found := _flops(group, of)) is not None}
    dram = _sum(group, ncu.DRAM_READ, ncu.DRAM_WRITE)
    return Kernel(
        name=first.kernel[:MAX_NAME],
        launches=len(group),
        time_us=time_us,
        share=time_us / all_us,
        grid=first.grid,
        block=first.block,
        waves=_mean(group, ncu.WAVES),
        flops=sum(flops.values()) if flops else None,
        flops_by_type={name: count for name, count in flops.items() if count},
        dram_bytes=dram,
        throughput=Throughput(**{name: _mean(group, metric) for name, metric in ncu.THROUGHPUT.items()}),
        occupancy=_occupancy(group),
        access=_access(group),
        stalls=_stalls(group),
    )


def _flops(group: Sequence[Launch], counters: dict[str, int]) -> float | None:
    known = [launch.values[name] * n for launch in group for name, n in counters.items() if name in launch.values]
    return sum(known) if known else None


def _occupancy(group: Sequence[Launch]) -> Occupancy:
    limits = {what: limit for name, what in ncu.LIMITS.items() if (limit := _mean(group, name)) is not None}
    theoretical = _mean(group, ncu.THEORETICAL)
    limiter: Any = None
    if limits and theoretical is not None and theoretical < 99.0:
        limiter = min(limits, key=lambda what: limits[what])
    registers, shared = _mean(group, ncu.REGISTERS), _sum(group[:1], *ncu.SHARED)
    return Occupancy(
        achieved=_mean(group, ncu.ACHIEVED),
        theoretical=theoretical,
        limiter=limiter,
        registers=None if registers is None else round(registers),
        shared_bytes=None if shared is None else round(shared),
    )


def _access(group: Sequence[Launch]) -> Access:
    conflicts, wavefronts = _sum(group, *ncu.CONFLICTS), _sum(group, ncu.WAVEFRONTS)
    sectors = _sum(group, *ncu.LOCAL_SECTORS)
    return Access(
        load_bytes_per_sector=_used(group, ncu.LOAD_USE),
        store_bytes_per_sector=_used(group, ncu.STORE_USE),
        bank_conflict_share=conflicts / wavefronts if conflicts is not None and wavefronts else None,
        local_bytes=None if sectors is None else sectors * SECTOR_BYTES,
        threads_per_instruction=_mean(group, ncu.THREADS),
    )


def _used(group: Sequence[Launch], metric: str) -> float | None:
    """None also where nothing is accessed: then ncu says 0."""
    return _mean(group, metric) or None


def _stalls(group: Sequence[Launch]) -> list[Stall]:
    """The longest ones; shares are of all waiting that is counted."""
    cycles = {reason: found for name, reason in ncu.STALLS.items() if (found := _mean(group, name))}
    total = sum(cycles.values())
    longest = sorted(cycles.items(), key=lambda item: -item[1])[:MAX_STALLS]
    return [Stall(reason=reason, cycles=value, share=value / total) for reason, value in longest]


def _mean(group: Sequence[Launch], metric: str) -> float | None:
    """Weighted by the launches' times."""
    known = [(launch.values[metric], launch.values[ncu.TIME]) for launch in group if metric in launch.values]
    weight = sum(time for _, time in known)
    return sum(value * time for value, time in known) / weight if known else None


def _sum(group: Sequence[Launch], *metrics: str) -> float | None:
    known = [total for launch in group if (total := launch.total(*metrics)) is not None]
    return sum(known) if known else None
