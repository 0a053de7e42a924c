"""A PyTorch module in, a verified faster kernel out."""

from __future__ import annotations

__version__ = "0.1.0"
