"""The built-in writer without a model: it traces a module, writes C++ kernels from rules and turns knobs by the judge's
times.

`trace` runs in the workspace and writes the module's graph as JSON; `lower` turns its operators into a small loop-level
IR by the rules of `rules/`; `schedule` decides which values are computed together; `body` and `loops` write the C++;
`module` writes `model_new.py`. `policy` drives all of it through the tools of the agent's loop.
"""

from cuda_agent.policies.template.policy import TemplatePolicy

__all__ = ["TemplatePolicy"]
