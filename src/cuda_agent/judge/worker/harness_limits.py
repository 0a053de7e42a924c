"""Numbers that harness and parent agree on."""

HELD_OUTPUTS = 2
"""So many earlier outputs stay alive in the worker, so that new ones must lie elsewhere."""
