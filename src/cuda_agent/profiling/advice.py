"""From figures to words: what bounds a kernel, and what its writer might try.

One bound for each kernel, the first of these that its figures show: launching it costs as much as it computes; memory;
arithmetic; too few blocks to fill the device; the caches; else nothing is busy and it waits (latency). Further findings
follow, each with its figure, only where they are far from what is usual.
"""

from __future__ import annotations

from collections.abc import Iterator

from cuda_agent.profiling.profile import Bound, Call, Kernel, Profile

SHORT_US = 4.0
"""A kernel this short takes about as long as launching it does."""
BUSY, BUSY_PERCENT = 0.6, 70.0
FEW_BYTES_PER_SECTOR = 20.0
MANY_CONFLICTS = 0.2
FEW_THREADS = 24.0
LOW_OCCUPANCY = 50.0
_STALLS = {
    "long_scoreboard": "waiting for device memory: load more per thread before using it (vector loads, unrolling), "
    "prefetch, or reuse data from shared memory",
    "short_scoreboard": "waiting for shared memory or special functions: fewer or wider shared accesses, fewer "
    "divisions and transcendental functions",
    "barrier": "waiting at __syncthreads(): fewer barriers, smaller blocks, warp shuffles instead of shared memory",
    "lg_throttle": "too many small accesses to memory: combine them into float4",
    "mio_throttle": "too many shared-memory, shuffle or special-function instructions: do more work per instruction",
    "math_pipe_throttle": "an arithmetic unit is full: fewer or cheaper operations, or tensor cores",
    "wait": "waiting for the instruction before: give each thread several independent results to work on",
    "tex_throttle": "too many accesses through the texture unit or local memory: combine them",
    "membar": "waiting for memory fences: use fewer, or narrower ones",
    "drain": "waiting for stores at the end: write coalesced, in wide stores",
    "no_instruction": "waiting for instructions: the code is too long or jumps too much; unroll less",
    "imc_miss": "waiting for constants: copy them to registers or shared memory first",
    "branch_resolving": "waiting for branches: replace them by selections",
    "dispatch_stall": "the dispatcher holds instructions back",
    "sleeping": "all threads of the warp sleep (__nanosleep)",
}


def judged(kernel: Kernel, multiprocessors: int) -> Kernel:
    """The kernel with its bound and what to try; without counters both stay empty."""
    bound = _bound(kernel, multiprocessors)
    words = [] if bound is None else [_why(kernel, bound, multiprocessors), *_findings(kernel, bound)]
    return kernel.model_copy(update={"bound": bound, "advice": words})


def _bound(kernel: Kernel, multiprocessors: int) -> Bound | None:
    roof, used = kernel.roof, kernel.throughput
    if kernel.grid is None:
        return None
    if kernel.time_us / kernel.launches < SHORT_US:
        return "launch overhead"
    memory, compute = roof.memory_share or 0.0, roof.compute_share or 0.0
    if max(memory, (used.dram or 0.0) / 100) >= BUSY:
        return "memory"
    if compute >= BUSY or max(used.multiprocessor or 0.0, used.tensor_cores or 0.0) >= BUSY_PERCENT:
        return "compute"
    if _blocks(kernel) < multiprocessors:
        return "too few blocks"
    if max(used.l2 or 0.0, used.l1 or 0.0) >= BUSY_PERCENT:
        return "cache"
    known = (roof.memory_share, used.dram, used.multiprocessor)
    return "latency" if any(value is not None for value in known) else None


def _blocks(kernel: Kernel) -> int:
    x, y, z = [*(kernel.grid or []), 1, 1, 1][:3]
    return x * y * z


def _why(kernel: Kernel, bound: Bound, multiprocessors: int) -> str:
    roof, used = kernel.roof, kernel.throughput
    match bound:
        case "launch overhead":
            each = kernel.time_us / kernel.launches
            return f"takes {each:.1f} us a launch, about what launching costs: fuse it with its neighbours"
        case "memory":
            share = roof.memory_share if roof.memory_share is not None else (used.dram or 0.0) / 100
            return (
                f"memory: {share:.0%} of the measured bandwidth. Only moving fewer bytes makes it faster: fuse, keep "
                "what comes between in registers, use a narrower type where the contract allows it"
            )
        case "compute":
            busy = max(used.multiprocessor or 0.0, used.tensor_cores or 0.0)
            told = f"{roof.compute_share:.0%} of the measured ceiling" if (roof.compute_share or 0) >= BUSY else ""
            told = told or f"the multiprocessors are {busy:.0f} % busy"
            return f"arithmetic: {told}. Fewer or cheaper operations, or tensor cores where the contract allows them"
        case "too few blocks":
            return (
                f"{_blocks(kernel)} blocks for {multiprocessors} multiprocessors: split the work further (along "
                "rows or the reduction), or use smaller blocks"
            )
        case "cache":
            name = "L2" if (used.l2 or 0.0) >= (used.l1 or 0.0) else "L1"
            value = max(used.l2 or 0.0, used.l1 or 0.0)
            return f"the {name} cache is {value:.0f} % busy: reuse data in registers or shared memory, access it wider"
        case "latency":
            reached = f"{roof.memory_share:.0%} of the bandwidth" if roof.memory_share is not None else "little"
            return f"latency: it reaches {reached} and keeps no unit busy. More bytes in flight: more independent loads"


def _findings(kernel: Kernel, bound: Bound) -> Iterator[str]:
    access, occupancy = kernel.access, kernel.occupancy
    for what, used in (("loads", access.load_bytes_per_sector), ("stores", access.store_bytes_per_sector)):
        if used is not None and used < FEW_BYTES_PER_SECTOR:
            yield f"uncoalesced {what}: {used:.0f} of each 32 bytes are used; let neighbouring threads take neighbours"
    if access.bank_conflict_share is not None and access.bank_conflict_share > MANY_CONFLICTS:
        share = access.bank_conflict_share
        yield f"bank conflicts: {share:.0%} of the shared-memory accesses; pad rows by one, or swizzle"
    if access.local_bytes:
        size = _size(access.local_bytes)
        yield f"local memory: {size} moved for spilled registers or arrays indexed at run time; use fewer registers"
    if access.threads_per_instruction is not None and access.threads_per_instruction < FEW_THREADS:
        yield f"divergence: {access.threads_per_instruction:.0f} of 32 threads take part in an instruction on average"
    if bound == "latency" and occupancy.limiter and (occupancy.theoretical or 100.0) < LOW_OCCUPANCY:
        yield f"occupancy: at most {occupancy.theoretical:.0f} %, limited by {_limiter(kernel)}"
    if kernel.waves is not None and 1.0 < kernel.waves < 2.0 and kernel.waves % 1.0 < 0.5:
        yield f"tail: {kernel.waves:.2f} waves of blocks, so that most of the device idles in the last one"
    if bound != "launch overhead" and kernel.stalls and kernel.stalls[0].share > 0.3:
        stall = kernel.stalls[0]
        yield f"{stall.share:.0%} of the waiting is {_STALLS.get(stall.reason, stall.reason)}"


def _limiter(kernel: Kernel) -> str:
    occupancy = kernel.occupancy
    match occupancy.limiter:
        case "registers":
            return f"{occupancy.registers} registers a thread"
        case "shared memory":
            return f"{occupancy.shared_bytes} bytes of shared memory a block"
    return str(occupancy.limiter)


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def on_the_call(profile: Profile) -> list[str]:
    """What the call as a whole shows."""
    call, lines = profile.call, []
    if call.solution_us is None:
        return []
    if call.floor_us is not None:
        ratio = call.solution_us / call.floor_us
        lines.append(
            f"the call takes {ratio:.1f} times its memory floor"
            + (": little is left to gain" if ratio < 1.3 and not _products_first(call) else "")
        )
    if call.matmul_us is not None and _products_first(call):
        lines.append(
            f"its matrix products alone need about {call.matmul_us:.0f} us at the measured ceiling: they decide"
        )
    if call.kernels_us and profile.device.startswith("cuda") and call.solution_us > 2 * call.kernels_us:
        lines.append(
            f"its kernels take {call.kernels_us:.0f} us of {call.solution_us:.0f}: the host is what takes the time; "
            "launch fewer kernels, do less in Python, or capture a CUDA graph"
        )
    top = profile.kernels[0] if profile.kernels else None
    if top is not None and top.share > 0.5 and len(profile.kernels) > 1:
        lines.append(f"{top.name} takes {top.share:.0%} of the time: begin there")
    return lines


def _products_first(call: Call) -> bool:
    return call.matmul_us is not None and call.matmul_us > (call.floor_us or 0.0)
