"""Running other people's programs without trusting them."""

from cuda_agent.sandbox.jail import Limits
from cuda_agent.sandbox.runner import Finished, Runner, SandboxedRunner, run_plain

__all__ = ["Finished", "Limits", "Runner", "SandboxedRunner", "run_plain"]
