"""What crosses the sockets: small JSON messages, and nested values whose tensors travel beside them.

A value is described without torch, so that the parent can read it: lists, tuples, dicts, None, numbers and strings are
spelled out; a tensor is `["t", i]`, the i-th row of the message's tensor list. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable
from typing import Any

MAX_MESSAGE = 1 << 20
MAX_DEPTH = 16


def encode(value: Any, tensor: Callable[[Any], int | None], depth: int = 0) -> list[Any]:
    """`tensor(x)` stores a tensor and gives its index, or None if `x` is no tensor. Raises TypeError."""
    if depth > MAX_DEPTH:
        raise TypeError("nested too deeply")
    index = tensor(value)
    if index is not None:
        return ["t", index]
    if value is None:
        return ["n"]
    if isinstance(value, bool):
        return ["b", value]
    if isinstance(value, int):
        return ["i", str(value)]
    if isinstance(value, float):
        return ["f", value.hex() if math.isfinite(value) else repr(value)]
    if isinstance(value, str):
        return ["s", value]
    if isinstance(value, tuple):
        return ["u", *[encode(v, tensor, depth + 1) for v in value]]
    if isinstance(value, list):
        return ["l", *[encode(v, tensor, depth + 1) for v in value]]
    if isinstance(value, dict):
        return ["d", *[[encode(k, tensor, depth + 1), encode(v, tensor, depth + 1)] for k, v in value.items()]]
    raise TypeError(f"a value of type {type(value).__name__}")


def decode(tree: Any, tensor: Callable[[int], Any]) -> Any:
    """The value again; `tensor(i)` gives the i-th tensor. Raises ValueError for anything `encode` cannot have made."""
    try:
        kind, rest = tree[0], tree[1:]
        match kind:
            case "t":
                return tensor(int(rest[0]))
            case "n":
                return None
            case "b":
                return bool(rest[0])
            case "i":
                return int(rest[0])
            case "f":
                return float.fromhex(rest[0])
            case "s":
                return str(rest[0])
            case "u":
                return tuple(decode(v, tensor) for v in rest)
            case "l":
                return [decode(v, tensor) for v in rest]
            case "d":
                return {decode(k, tensor): decode(v, tensor) for k, v in rest}
    except (TypeError, IndexError, KeyError, AttributeError) as error:
        raise ValueError(f"malformed value: {error}") from None
    raise ValueError(f"malformed value of kind {kind!r}")


def send(sock: socket.socket, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(data)} bytes")
    if descriptors:
        socket.send_fds(sock, [data], descriptors)
    else:
        sock.sendall(data)


def receive(sock: socket.socket, descriptors: int = 0) -> tuple[dict[str, Any], list[int]]:
    """The next message and its descriptors. Raises EOFError when the other side is gone, ValueError for garbage."""
    if descriptors:
        data, received, _, _ = socket.recv_fds(sock, MAX_MESSAGE + 1, descriptors)
    else:
        data, received = sock.recv(MAX_MESSAGE + 1), []
    if not data:
        raise EOFError
    message = json.loads(data)
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message, list(received)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that keep message boundaries, large enough for the largest message."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_MESSAGE)
    return ends
