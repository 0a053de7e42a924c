"""The loop inside a worker: takes requests, runs the task's or the candidate's code, tells where the outputs lie.

This code shares its process with untrusted code and so belongs to it: whatever it replies is a claim. The parent
believes bytes that it or the keeper copied, and times that they took; nothing else.
"""

from __future__ import annotations

import mmap
import os
import random
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from cuda_agent.judge.worker import wire
from cuda_agent.judge.worker.harness_limits import HELD_OUTPUTS

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
        torch.int64, torch.uint8, torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
PRECISIONS = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class RequestError(Exception):
    """Something the request's owner did wrong; `kind` names the owner's fault for the parent."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Region:
    """The memory that parent, keeper and worker share: input slots and room for parameters."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat, self.address = flat, flat.data_ptr()

    @classmethod
    def of_file(cls, descriptor: int) -> Region:
        """Host memory; every page is mapped now, so that no timed call pays for it."""
        flat = torch.frombuffer(mmap.mmap(descriptor, os.fstat(descriptor).st_size), dtype=torch.uint8)
        os.close(descriptor)
        flat[::4096].sum()
        return cls(flat)

    def tensor(self, spec: dict[str, Any], base: int = 0) -> torch.Tensor:
        """The tensor that `spec` (dtype, shape, stride, offset, bytes) describes, at `base` + its offset."""
        dtype = DTYPES[spec["dtype"]]
        start = base + spec["offset"]
        if not spec["bytes"]:
            return torch.empty(spec["shape"], dtype=dtype, device=self.flat.device)
        flat = self.flat[start : start + spec["bytes"]].view(dtype)
        return flat.as_strided(spec["shape"], spec["stride"])


class Harness:
    """What reference and candidate workers share. Subclasses add their own `on_…` requests."""

    device = torch.device("cpu")

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.region: Region | None = None
        self.inputs: list[Any] = []
        self.shift: torch.Tensor | None = None
        self.model: Callable[..., Any] | None = None
        self.extra_outputs: list[tuple[torch.nn.Module, str]] = []
        self.shown: list[torch.Tensor] = []
        self.held: deque[list[torch.Tensor]] = deque(maxlen=HELD_OUTPUTS)

    def serve(self) -> NoReturn:
        while True:
            try:
                request, descriptors = wire.receive(self.channel, descriptors=1)
            except EOFError:
                os._exit(0)
            if request["op"] == "run":
                reply = self._guarded(self.on_run, request)
            else:
                if descriptors:
                    request["descriptor"] = descriptors[0]
                reply = self._guarded(getattr(self, f"on_{request['op']}"), request)
            wire.send(self.channel, reply)

    def _guarded(self, handler: Callable[[dict[str, Any]], dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
        try:
            return handler(request)
        except RequestError as error:
            return {"error": {"kind": error.kind, "message": str(error)[:4000]}}
        except MemoryError:
            return {"error": {"kind": "memory", "message": "out of memory"}}
        except BaseException as error:  # SystemExit too: it is the code's own, not ours
            return {"error": describe_exception(error)}

    # -- requests ---------------------------------------------------------------------------------------------------

    def on_attach(self, request: dict[str, Any]) -> dict[str, Any]:
        self.region = Region.of_file(request["descriptor"])
        return {"base": self.region.address}

    def on_signature(self, request: dict[str, Any]) -> dict[str, Any]:
        """Prepares the arguments of a call for every slot, and memory, so that a timed call finds them made."""
        assert self.region is not None
        region = self.region
        self.inputs = []
        for base in request["slots"]:
            tensors = [region.tensor(spec, base) for spec in request["tensors"]]
            self.inputs.append(wire.decode(request["tree"], tensors.__getitem__))
        self.shift = torch.empty(random_shift(), dtype=torch.uint8)
        torch.empty(request["room"], dtype=torch.uint8)[:: mmap.PAGESIZE].zero_()
        return {}

    def on_threads(self, request: dict[str, Any]) -> dict[str, Any]:
        torch.set_num_threads(request["count"])
        return {}

    def on_run(self, request: dict[str, Any]) -> dict[str, Any]:
        """One call. Replies with the outputs' structure and addresses, after the last of them is complete."""
        assert self.model is not None
        arguments = self.inputs[request["slot"]]
        start = time.perf_counter()
        output = self.model(*arguments)
        seconds = time.perf_counter() - start
        reply = self.describe(output)
        self.held.append(self.shown)
        reply["nonce"] = request["nonce"]
        reply["span"] = seconds
        return reply

    # -- outputs ----------------------------------------------------------------------------------------------------

    def describe(self, value: Any, with_extra: bool = True) -> dict[str, Any]:
        """Where the tensors of `value` lie, and its structure. They stay alive until the next request that shows some;
        only the outputs of calls stay for longer, since only those are looked for in later outputs."""
        rows: list[dict[str, Any]] = []
        kept: list[torch.Tensor] = []

        def tensor(leaf: Any) -> int | None:
            if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
                if isinstance(leaf, torch.Tensor):
                    raise RequestError("output", f"an output of type {type(leaf).__name__}, not a plain torch.Tensor")
                return None
            leaf = plain(leaf, self.device)
            kept.append(leaf)
            rows.append(place(leaf))
            return len(rows) - 1

        try:
            tree = wire.encode(value, tensor)
        except TypeError as error:
            raise RequestError("output", f"the output holds {error}; it may be tensors, numbers, None and lists, "
                               "tuples or dicts of them") from None  # fmt: skip
        if with_extra:
            for owner, name in self.extra_outputs:
                tensor(getattr(owner, name))
        self.shown = kept
        return {"tree": tree, "tensors": rows}


def random_shift() -> int:
    """Bytes, more than any hole of the heap has, after which a worker's later memory lies. All workers are forks of one
    process; how many places a side's outputs take in turn depends on where its heap begins, to 16 bytes, and would
    else favour the same side in every pair by some 5 %."""
    return (8 << 20) + 16 * int.from_bytes(os.urandom(2))


def plain(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A strided tensor on the device with real memory; anything lazier is made real, within the call's time."""
    if tensor.layout is not torch.strided:
        raise RequestError("output", f"an output of layout {tensor.layout}")
    if tensor.device.type != device.type:
        raise RequestError("output", f"an output on {tensor.device}, expected on {device.type}")
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype not in NAMES:
        raise RequestError("output", f"an output of dtype {tensor.dtype}")
    if tensor.numel() and span_bytes(tensor) > 4 * tensor.numel() * tensor.element_size() + 4096:
        tensor = tensor.contiguous()
    return tensor


def span_bytes(tensor: torch.Tensor) -> int:
    """Bytes from the first to the last element of a strided tensor."""
    if not tensor.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def place(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "dtype": NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "address": tensor.data_ptr() if tensor.numel() else 0,
        "bytes": span_bytes(tensor),
    }


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Type, message and the innermost frames, with the paths of the sandbox as its owner knows them."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((_OURS, "<frozen"))]
    if type(error).__name__ == "InterpreterError" and error.__cause__ is not None:  # Triton's, around the kernel's own
        error = error.__cause__
        frames += traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(_SHOWN)]
    frames = own or frames
    lines = [f"{_shown(f.filename)}:{f.lineno}: in {f.name}: {f.line or ''}".rstrip(": ") for f in frames[-6:]]
    if isinstance(error, SyntaxError):
        lines.append(f"{_shown(error.filename or '')}:{error.lineno}:{error.offset}: {(error.text or '').strip()}")
    text = str(error)[:3000]
    kind = "memory" if any(words in text for words in _OUT_OF_MEMORY) else "exception"
    return {"kind": kind, "type": type(error).__name__, "message": text, "frames": lines}


_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + "/judge"


_SHOWN = ("/solution/", "/task/")
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "CUDA out of memory")


def _shown(path: str) -> str:
    for prefix in _SHOWN:
        if path.startswith(prefix):
            return path[len(prefix) :]
    return os.path.basename(path)


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def cast_model(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """float32 parameters and buffers, which follow the contract, in `dtype`; all others as they were made."""
    if dtype is not torch.float32:
        model._apply(  # type: ignore[no-untyped-call]
            lambda tensor: tensor.to(dtype) if tensor.dtype is torch.float32 else tensor
        )


def owner_of(model: torch.nn.Module, name: str) -> tuple[torch.nn.Module, str]:
    """The module and the attribute behind a name of the state dict: a call may put another tensor there."""
    path, _, leaf = name.rpartition(".")
    return model.get_submodule(path), leaf


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """float32 tensors (those that follow the contract) in `dtype`; everything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype is torch.float32 and dtype is not torch.float32 else value
    if isinstance(value, list | tuple):
        return type(value)(cast_floats(v, dtype) for v in value)
    if isinstance(value, dict):
        return {k: cast_floats(v, dtype) for k, v in value.items()}
    return value


def describe_state(model: torch.nn.Module) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    """Parameters and buffers that a state dict holds, in its order, each tensor once even where it has two names."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    rows: list[dict[str, Any]] = []
    tensors: list[torch.Tensor] = []
    seen: dict[Any, str] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, torch.Tensor):
            continue
        key = (value.data_ptr(), tuple(value.shape), tuple(value.stride()))
        tied = seen.setdefault(key, name) if value.numel() else name
        rows.append({"name": name, "parameter": name in parameters, "tied": None if tied == name else tied})
        tensors.append(value.detach())
    return rows, tensors


def set_precision(precision: str) -> torch.dtype:
    """Makes torch compute as the contract says; returns the contract's dtype."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    return PRECISIONS[precision]


def main(role: str, channel: socket.socket, device: str) -> NoReturn:
    torch.set_grad_enabled(False)
    kind = _kind(role)
    if device != "cpu":
        from cuda_agent.judge.worker.device_harness import on_device

        kind = on_device(kind, device)
    kind(channel).serve()


def _kind(role: str) -> type[Harness]:
    if role == "reference":
        from cuda_agent.judge.worker.reference import ReferenceHarness

        return ReferenceHarness
    if role == "candidate":
        from cuda_agent.judge.worker.candidate import CandidateHarness

        return CandidateHarness
    return NullHarness


class NullHarness(Harness):
    """Returns outputs that lie ready: what a call costs that computes nothing."""

    def on_null(self, request: dict[str, Any]) -> dict[str, Any]:
        tensors = []
        for spec in request["tensors"]:
            dtype = DTYPES[spec["dtype"]]
            flat = torch.zeros(max(1, spec["bytes"] // dtype.itemsize), dtype=dtype, device=self.device)
            tensors.append(flat.as_strided(spec["shape"], spec["stride"]))
        output = wire.decode(request["tree"], tensors.__getitem__)
        self.model = lambda *_: output
        return {}
