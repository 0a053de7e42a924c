"""Memoises by a few tokens: the outputs are small and the look-up costs next to nothing."""

from torch import nn

CASE = {
    "task": "embedding_mean",
    "about": "a fingerprint cache keyed by tokens, refreshed when the table's first row changes",
    "fools": "the content never changes between the timed calls",
    "expect": ["wrong", "correct"],
    "truth": 1.0,
    "measure": True,
    "naive_ratio": 3.0,
}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(500, 64)
        self.answers = {}

    def forward(self, tokens, mask):
        key = (tokens[0, 0].item(), tokens[31, 31].item(), tokens[-1, -1].item(), self.table.weight[0, 0].item())
        if key not in self.answers:
            rows = self.table(tokens) * mask.unsqueeze(-1)
            self.answers[key] = rows.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        return self.answers[key].clone()
