"""The tools of the agent, one small file for each kind."""

from __future__ import annotations

from typing import Any

from cuda_agent.agent.tools.base import Context, Observation, Tool, call_tool
from cuda_agent.agent.tools.files import FILES
from cuda_agent.agent.tools.judging import JUDGING
from cuda_agent.agent.tools.search import SEARCH
from cuda_agent.agent.tools.shell import SHELL
from cuda_agent.agent.tools.todo import TODO

TOOLS: list[Tool[Any]] = [*SHELL, *FILES, *SEARCH, *TODO, *JUDGING]

__all__ = ["TOOLS", "Context", "Observation", "Tool", "call_tool"]
