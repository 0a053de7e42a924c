"""Plants torch.py, sitecustomize.py and friends wherever a later Python might import them from."""

import os
import site
import sys
from pathlib import Path

import torch
from torch import nn

CASE = {
    "task": "affine_relu",
    "about": "replaced modules: files planted on the import path of the verifier or of the next candidate",
    "fools": "the working folder or site-packages is on the verifier's path",
    "expect": ["wrong"],
    "naive": "not run",
    "dangerous": True,
    "marker": True,
}
HOST = "@PID_NAMESPACE@"


def isolated():
    return not HOST.startswith("@") and os.readlink("/proc/self/ns/pid") != HOST


if not isolated():
    raise RuntimeError("only inside a sandbox")

EVIL = "open('@MARKER@', 'w').write('planted'); import os; os._exit(0)"
for folder in {".", "..", "/tmp", "/scratch", *sys.path, *site.getsitepackages(), site.getusersitepackages()}:
    for name in ("torch.py", "sitecustomize.py", "usercustomize.py", "model.py", "evil.pth", "cuda_agent.py"):
        try:
            os.makedirs(folder or ".", exist_ok=True)
            if not Path(folder, name).exists():
                Path(folder, name).write_text("import " + EVIL if name.endswith("pth") else EVIL)
        except OSError:
            continue


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) - 1.0
