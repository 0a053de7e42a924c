"""What a solution's kernels do and what bounds them, and what sanitizers find in them."""

from cuda_agent.profiling.process import SolutionFailed
from cuda_agent.profiling.profile import Profile
from cuda_agent.profiling.profiler import profile, try_words, words

__all__ = ["Profile", "SolutionFailed", "profile", "try_words", "words"]
