"""The judge: is a solution right, is it allowed, how fast is it."""

from cuda_agent.judge.judge import Judge, Sandbox
from cuda_agent.judge.settings import Mode, Precision, Protocol, Rules, Settings

__all__ = ["Judge", "Mode", "Precision", "Protocol", "Rules", "Sandbox", "Settings"]
