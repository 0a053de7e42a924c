"""From a kernel's body to its C++."""

from __future__ import annotations

from cuda_agent.policies.template.body import BodyWriter
from cuda_agent.policies.template.knobs import Knobs
from cuda_agent.policies.template.plan import Plan, worth_keeping
from cuda_agent.policies.template.render import Kernel, Renderer
from cuda_agent.policies.template.rows import RowRenderer
from cuda_agent.policies.template.split import Split
from cuda_agent.policies.template.tiles import TileRenderer


def write_kernel(name: str, writer: BodyWriter, knobs: Knobs, comment: str) -> Kernel:
    """The kernel of a body. Raises what the body's writer raises."""
    plan = Plan(writer.write(), knobs, writer.place_of)
    if plan.vector is not None or plan.split:
        vector = frozenset(plan.vector.members if plan.vector else ())
        split, style = plan.split, plan.style
        writer.local = lambda support: split or bool(support & vector)
        plan = Plan(writer.write(), knobs, writer.place_of, style)
    if knobs.keep and not plan.split and plan.body.scan is None:
        kept = worth_keeping(plan)
        if kept:
            writer.kept = kept
            plan = Plan(writer.write(), knobs, writer.place_of, plan.style)
    renderer: Renderer = (RowRenderer if plan.vector is None else TileRenderer)(name, plan, comment)
    return renderer.kernel(Split(renderer).write if plan.split else renderer.plain_body)
