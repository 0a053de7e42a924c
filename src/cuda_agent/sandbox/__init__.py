"""Running other people's programs without trusting them."""

from cuda_agent.sandbox.runner import Finished, Runner, run_plain

__all__ = ["Finished", "Runner", "run_plain"]
