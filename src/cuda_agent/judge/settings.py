"""What a verdict is asked for: the contract, the rules and the protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from cuda_agent.errors import UsageError
from cuda_agent.judge import device as devices

Rules = Literal["any", "libraries", "kernels"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Protocol = Literal["strict", "paper"]
Mode = Literal["eval", "train"]


@dataclass(frozen=True)
class Settings:
    """`measure=False` stops after comparing; `careful` measures until the interval is narrow (winners, publishing);
    `call_timeout_s` bounds a call of the candidate, `first_call_timeout_s` the first one in a worker (which may compile
    or tune), `build_timeout_s` its import and construction; `device` is cpu, cuda or cuda:N and
    becomes the one that was meant. Raises UsageError for what is unknown or not here."""

    rules: Rules = "any"
    precision: Precision = "fp32"
    protocol: Protocol = "strict"
    mode: Mode = "eval"
    device: str = "cpu"
    careful: bool = False
    measure: bool = True
    call_timeout_s: float = 10.0
    first_call_timeout_s: float = 30.0
    build_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        for name, allowed in (("rules", Rules), ("precision", Precision), ("protocol", Protocol), ("mode", Mode)):
            value = getattr(self, name)
            if value not in get_args(allowed):
                raise UsageError(f"{name} {value!r} is unknown; it is one of {', '.join(get_args(allowed))}")
        object.__setattr__(self, "device", devices.resolve(self.device))
        if self.precision == "tf32" and not self.device.startswith("cuda"):
            raise UsageError("precision tf32 exists on NVIDIA GPUs only; a CPU has fp32, bf16 and fp16")

    @property
    def task_key(self) -> tuple[str, ...]:
        """What a task's preparation and baselines depend on."""
        return (self.precision, self.protocol, self.mode, self.device)
