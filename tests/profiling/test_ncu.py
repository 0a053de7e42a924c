"""Nsight Compute's table, read and put into words. `ncu_raw.csv` has the form of its raw page with invented figures;
`tests/gpu/test_profile.py` reads real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuda_agent.profiling import advice, kernels, ncu, roofline
from cuda_agent.profiling.process import Ran
from cuda_agent.profiling.profile import Call, Ceilings, Kernel, Profile
from cuda_agent.sandbox import Finished

TABLE = Path(__file__).with_name("ncu_raw.csv").read_text()
CEILINGS = Ceilings(bytes_per_second=4.2e12, flops_per_second={"fp32": 51e12})
MULTIPROCESSORS = 132


def found(table: str = TABLE) -> dict[str, Kernel]:
    made = kernels.from_launches(ncu.parse(table))
    return {k.name: advice.judged(roofline.placed(k, CEILINGS), MULTIPROCESSORS) for k in made}


STREAM, POOR = "void stream<(int)4>(float *, const float *, int)", "column_sums"


def test_launches_of_one_kernel_are_taken_together() -> None:
    stream = found()[STREAM]
    assert (stream.launches, stream.grid, stream.block) == (2, [16384, 1, 1], [256, 1, 1])
    assert stream.time_us == pytest.approx(28.448 + 30.016)
    assert stream.dram_bytes == 2 * (67_109_120 + 50_331_648)
    assert stream.flops == 2 * (2 * 16_777_216 + 1024)
    assert sum(kernel.share for kernel in found().values()) == pytest.approx(1)
    assert next(iter(found())) == POOR  # the slowest first


def test_what_is_not_counted_is_unknown_not_zero() -> None:
    assert found()[STREAM].throughput.tensor_cores is None  # n/a
    assert found()[POOR].throughput.tensor_cores is None  # nan
    bare = "\n".join(line for line in TABLE.splitlines())
    for metric in (ncu.DRAM_READ, ncu.DRAM_WRITE, ncu.THROUGHPUT["dram"]):
        bare = bare.replace(metric, "another_metric")
    kernel = found(bare)[STREAM]
    assert kernel.dram_bytes is None and kernel.roof.memory_share is None and kernel.throughput.dram is None


def test_units_count_whatever_they_are() -> None:
    seconds = TABLE.replace('"ns"', '"second"').replace('"28,448"', '"2.8448e-05"').replace('"30,016"', '"3.0016e-05"')
    assert found(seconds)[STREAM].time_us == pytest.approx(28.448 + 30.016)


def test_a_kernel_that_streams_is_bound_by_memory() -> None:
    stream = found()[STREAM]
    assert stream.bound == "memory" and stream.roof.memory_share == pytest.approx(234_881_536 / 58.464e-6 / 4.2e12)
    assert stream.roof.intensity == pytest.approx(0.2857, abs=1e-3)
    assert "uncoalesced" not in " ".join(stream.advice)


def test_a_poor_kernel_waits_and_each_reason_is_told() -> None:
    poor = found()[POOR]
    words = "\n".join(poor.advice)
    assert poor.bound == "latency"
    for told in (
        "uncoalesced loads: 4 of each 32 bytes",
        "bank conflicts: 88%",
        "local memory: 256 KiB",
        "divergence: 17 of 32",
        "occupancy: at most 25 %, limited by 128 registers a thread",
        "waiting for shared memory",
    ):
        assert told in words
    assert "uncoalesced stores" not in words
    assert (poor.occupancy.limiter, poor.occupancy.shared_bytes) == ("registers", 17_408)
    assert [stall.reason for stall in poor.stalls] == ["short_scoreboard", "long_scoreboard", "barrier"]


@pytest.mark.parametrize(
    ("change", "bound"),
    [
        (("112,640", "2,640"), "launch overhead"),
        (("(512, 1, 1)", "(64, 1, 1)"), "too few blocks"),
        (("19.2", "91.5"), "cache"),
        (("12.9", "88.0"), "compute"),
    ],
)
def test_other_bounds(change: tuple[str, str], bound: str) -> None:
    assert found(TABLE.replace(*change))[POOR].bound == bound


@pytest.mark.parametrize("table", ["", "==PROF== Connected to process 1\n", '"ID","Kernel Name"\n', "garbage,\0\n"])
def test_no_table_no_kernels(table: str) -> None:
    assert kernels.from_launches(ncu.parse(table)) == []


@pytest.mark.parametrize(
    ("log", "timed_out", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
            False,
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", False, "LibraryNotLoaded"),
        ("==WARNING== No kernels were profiled.\n", False, "no kernel"),
        ("", True, "in time"),
        ("", False, "exit code 7"),
    ],
)
def test_why_there_are_no_counters_is_one_line(log: str, timed_out: bool, words: str) -> None:
    why = ncu.why_nothing(Ran(Finished(7, "", "", timed_out), None, {ncu.LOG: log}))
    assert words in why and "\n" not in why


def test_words_on_a_call_whose_floor_is_not_known() -> None:
    call = Call(solution_us=10.0, floor_us=None, matmul_us=6.0)
    found = Profile(task="", solution="", device="cpu", precision="fp32", mode="eval", counters="torch", call=call)
    assert advice.on_the_call(found) == [
        "its matrix products alone need about 6 us at the measured ceiling: they decide"
    ]
    floored = found.model_copy(update={"call": Call(solution_us=10.0, floor_us=9.0)})
    assert advice.on_the_call(floored) == ["the call takes 1.1 times its memory floor: little is left to gain"]
