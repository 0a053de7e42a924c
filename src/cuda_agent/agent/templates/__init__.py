"""Texts for policies and people, as Jinja templates."""

from __future__ import annotations

from typing import Any

import jinja2


def render(name: str, **values: Any) -> str:
    """The text of the template `name` of this folder."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cuda_agent.agent", "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)
