"""Right for its first twelve calls, afterwards it returns an old answer in new memory."""

from torch import nn

CASE = {
    "task": "linear_gelu",
    "about": "correct, then stale: counts its calls and stops computing when timing is likely to have begun",
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
        if self.calls > 12:
            return self.last.clone()
        self.last = nn.functional.gelu(self.linear(x))
        return self.last.clone()
