"""Turning a live module into source: its tensors (`values`), its state (`state`) and its graph (`forward`)."""
