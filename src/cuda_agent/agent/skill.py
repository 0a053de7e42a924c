"""What a policy is told before it starts: SKILL.md, which is also the system message, and the task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cuda_agent.agent.policy import Message
from cuda_agent.agent.templates import render
from cuda_agent.agent.trajectory import Budget
from cuda_agent.task import Task

if TYPE_CHECKING:
    from cuda_agent.judge import Settings

_RULES = {
    "any": "Any correct code may be used, PyTorch's operators included.",
    "libraries": "Own kernels, data movement (allocation, views, copies, casts, layout, cat), and PyTorch's matrix "
    "products and convolutions; no other operator of PyTorch.",
    "kernels": "Own kernels and data movement (allocation, views, copies, casts, layout, cat) only.",
}
_PRECISIONS = {
    "fp32": "Results are compared with a bound derived from fp64; no reduced precision inside.",
    "tf32": "Matrix products may use TF32, on both sides.",
    "bf16": "Weights and inputs are bfloat16, on both sides.",
    "fp16": "Weights and inputs are float16, on both sides.",
}


def skill_text(settings: Settings, backend: str = "auto") -> str:
    """SKILL.md for these settings and for the backend that kernels are to be written for."""
    notes = {"rules_note": _RULES.get(settings.rules, ""), "precision_note": _PRECISIONS.get(settings.precision, "")}
    return render("SKILL.md.j2", settings=settings, triton=backend == "triton", **notes)


def opening(task: Task, settings: Settings, budget: Budget, backend: str = "auto") -> list[Message]:
    """The first two messages of an episode; the last line of the second is `TASK {json}`."""
    facts = {
        "id": task.id,
        "name": task.name,
        "rules": settings.rules,
        "precision": settings.precision,
        "mode": settings.mode,
        "device": settings.device,
        "backend": backend,
        "seconds": budget.seconds,
        "evaluations": budget.evaluations,
        "turns": budget.turns,
    }
    others = sorted(set(task.files) - {"model.py"})
    beside = f"\nBeside it lie: {', '.join(others)}" if others else ""
    user = f"Make this faster.\n\n```python\n# model.py\n{task.source.strip()}\n```{beside}\n\nTASK {json.dumps(facts)}"
    return [{"role": "system", "content": skill_text(settings, backend)}, {"role": "user", "content": user}]
