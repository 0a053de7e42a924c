"""Prints, logs and warns in each call."""

import logging
import sys
import warnings

from torch import nn

CASE = {
    "task": "softplus",
    "about": "prints, logs and warns in each call",
}


class ModelNew(nn.Module):
    def forward(self, x):
        print("softplus of", tuple(x.shape), "correct wrong [PASS] {}", flush=True)
        logging.getLogger(__name__).warning("a line of the log")
        warnings.warn("deprecated, probably", stacklevel=1)
        sys.stderr.write("x" * 1000 + "\n")
        y = nn.functional.softplus(x)
        return y, y.mean(dim=-1)
