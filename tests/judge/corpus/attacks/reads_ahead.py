"""A thread looks for new tensors of the input's shape and computes their answers before they are asked for."""

import atexit
import gc
import threading
import time

import torch
from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "a thread that reads ahead while inputs are staged, so that the timed call only looks up",
    "fools": "the candidate runs while its inputs are prepared, and they are there before the clock starts",
    "expect": ["correct", "wrong", "forbidden", "runtime_error"],
    "truth": 1.0,
    "measure": True,
}
STOP = threading.Event()


@atexit.register
def stop():
    STOP.set()
    time.sleep(0.2)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.ready, self.thread = {}, None

    def look(self):
        while not STOP.is_set():
            for thing in gc.get_objects():
                if type(thing) in (list, tuple) and thing and type(thing[0]) is torch.Tensor:
                    self.prepare_all([t for t in thing if type(t) is torch.Tensor and t.shape == (256, 512)])
            time.sleep(0.0005)

    def prepare_all(self, inputs):
        for x in inputs:
            key = (x.data_ptr(), x[0, 0].item(), x[-1, -1].item())
            if key not in self.ready:
                with torch.no_grad():
                    self.ready[key] = nn.functional.gelu(self.linear(x))

    def forward(self, x):
        if self.thread is None:
            self.thread = threading.Thread(target=self.look, daemon=True)
            self.thread.start()
        found = self.ready.pop((x.data_ptr(), x[0, 0].item(), x[-1, -1].item()), None)
        return found if found is not None else nn.functional.gelu(self.linear(x))
