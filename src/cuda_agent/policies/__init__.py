"""Whoever writes kernels. A policy is found by name through the entry points of the group `cuda_agent.policies`."""
