"""After twelve right calls it computes only half of the rows; the rest are those of the call before."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "partly stale: half the work is skipped once the checks seem to be over",
    "fools": "outputs of timed calls are not compared",
    "expect": ["wrong"],
    "measure": True,
}


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls <= 12:
            self.last = nn.functional.gelu(self.linear(x))
        else:
            half = x.shape[0] // 2
            self.last[:half] = nn.functional.gelu(self.linear(x[:half]))
        return self.last.clone()
