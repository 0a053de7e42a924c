"""What a profile says of one solution: per kernel, what it does and what bounds it, as one versioned JSON record.

All figures of the solution come from a process that holds its code and so are claims, for its writer. The ceilings,
the floor and the necessary bytes are measured by a trusted process. What is not known is null.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = 1

Bound = Literal["memory", "compute", "cache", "latency", "launch overhead", "too few blocks"]
Counters = Literal["ncu", "torch"]


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Stall(Record):
    """Why warps waited: `cycles` is the mean wait of a warp for this reason between two instructions it issues."""

    reason: str
    cycles: float
    share: float


class Occupancy(Record):
    """Percent of the warps that a multiprocessor can hold; `limiter` is what keeps it from more."""

    achieved: float | None = None
    theoretical: float | None = None
    limiter: Literal["registers", "shared memory", "block size", "blocks per multiprocessor"] | None = None
    registers: int | None = None
    shared_bytes: int | None = None


class Throughput(Record):
    """Percent of what each part can do at most, as ncu tells it; hit rates in percent."""

    dram: float | None = None
    l2: float | None = None
    l1: float | None = None
    multiprocessor: float | None = None
    tensor_cores: float | None = None
    l1_hits: float | None = None
    l2_hits: float | None = None


class Access(Record):
    """How memory is accessed. Sectors are of 32 bytes; shares are between 0 and 1."""

    load_bytes_per_sector: float | None = None
    store_bytes_per_sector: float | None = None
    bank_conflict_share: float | None = None
    local_bytes: float | None = None
    threads_per_instruction: float | None = None


class Roof(Record):
    """Where a kernel lies under the measured roofline: shares of the ceilings, between 0 and about 1."""

    intensity: float | None = None
    """FLOPs for each byte of device memory."""
    memory_share: float | None = None
    compute_share: float | None = None


class Kernel(Record):
    """One kernel, or on a CPU one operator, of one call of the solution; several launches are taken together."""

    name: str
    launches: float
    time_us: float
    share: float
    """Of the time of all kernels."""
    grid: list[int] | None = None
    block: list[int] | None = None
    waves: float | None = None
    flops: float | None = None
    flops_by_type: dict[str, float] = {}
    dram_bytes: float | None = None
    throughput: Throughput = Throughput()
    occupancy: Occupancy = Occupancy()
    access: Access = Access()
    stalls: list[Stall] = []
    roof: Roof = Roof()
    bound: Bound | None = None
    advice: list[str] = []


class Ceilings(Record):
    """What this device was measured to do at best: large copies, and large matrix products in each arithmetic."""

    bytes_per_second: float
    flops_per_second: dict[str, float] = {}


class Call(Record):
    """The whole call: microseconds of each side (claimed), and the least that its data and products need (measured)."""

    solution_us: float | None = None
    reference_us: float | None = None
    kernels_us: float | None = None
    floor_us: float | None = None
    necessary_bytes: int | None = None
    matmul_flops: int | None = None
    """Of the reference's matrix products and convolutions."""
    matmul_us: float | None = None


class Profile(Record):
    schema_version: int = Field(default=SCHEMA, alias="schema")
    task: str
    solution: str
    device: str
    precision: str
    mode: str
    counters: Counters
    ceilings: Ceilings | None = None
    call: Call = Call()
    kernels: list[Kernel] = []
    reference: list[Kernel] = []
    """The reference's operators (on a GPU: kernels), times only."""
    advice: list[str] = []
    """On the call as a whole."""
    notes: list[str] = []
    """What could not be had, and why."""
    provenance: dict[str, Literal["measured", "claimed"]] = {
        "call.floor_us": "measured",
        "call.necessary_bytes": "measured",
        "ceilings": "measured",
        "call.solution_us": "claimed",
        "call.reference_us": "claimed",
        "call.matmul_flops": "claimed",
        "kernels": "claimed",
        "reference": "claimed",
    }

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(by_alias=True, indent=indent)
