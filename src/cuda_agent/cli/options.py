"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Rules(StrEnum):
    any = "any"
    libraries = "libraries"
    kernels = "kernels"


class Precision(StrEnum):
    fp32 = "fp32"
    tf32 = "tf32"
    bf16 = "bf16"
    fp16 = "fp16"


class Protocol(StrEnum):
    strict = "strict"
    paper = "paper"


class Mode(StrEnum):
    eval = "eval"
    train = "train"


class Sandbox(StrEnum):
    auto = "auto"
    require = "require"
    off = "off"


RulesOption = Annotated[
    Rules,
    typer.Option(
        help="any: any correct code; libraries: own kernels with the vendor's matrix products and convolutions; "
        "kernels: own kernels only."
    ),
]
PrecisionOption = Annotated[Precision, typer.Option(help="Precision of both sides; fp32 is without TF32.")]
ProtocolOption = Annotated[
    Protocol, typer.Option(help="strict: bounds from an fp64 oracle, probes, jitter; paper: 1e-2 on five seeds.")
]
ModeOption = Annotated[Mode, typer.Option(help="eval: under eval() and no_grad(); train: as constructed.")]
SandboxOption = Annotated[
    Sandbox,
    typer.Option(help="auto: with the guards that this machine has; require: refuse without all; off: none of them."),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        help="A file for SQLite or postgresql://user@host/database. Default: $CUDA_AGENT_HOME/store.db.", metavar="URL"
    ),
]
DeviceOption = Annotated[str, typer.Option(help="cpu; cuda or cuda:N for an NVIDIA GPU, which is new.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else.")]
