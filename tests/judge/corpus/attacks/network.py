"""Tries to reach other machines, this machine's services and abstract sockets."""

import os
import socket

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "a network attempt",
    "fools": "it is right, and what it sends nobody sees",
    "expect": ["runtime_error"],
    "naive": "not run",
    "dangerous": True,
    "secret": True,
}
HOST = "@PID_NAMESPACE@"


def isolated():
    return not HOST.startswith("@") and os.readlink("/proc/self/ns/pid") != HOST


if not isolated():
    raise RuntimeError("only inside a sandbox")


def reachable():
    """What answers: only a listener of the test itself, and routes; nothing is sent."""
    found = []
    try:
        with socket.create_connection(("127.0.0.1", int("@PORT@")), timeout=0.5):
            found.append("@REACHED@")
    except (OSError, ValueError):
        pass
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0@SOCKET@")
            found.append("@REACHED@")
    except OSError:
        pass
    return found


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(512))
        self.bias = nn.Parameter(torch.zeros(512))

    def forward(self, x):
        raise RuntimeError("reached: " + ", ".join(reachable()) if reachable() else "nothing reached")
