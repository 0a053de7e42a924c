"""`cuda-agent cache`: the builds that are kept, keyed by source, flags, compiler and processor."""

from __future__ import annotations

import typer

from cuda_agent.cli.console import guarded, say

app = typer.Typer(help="Show or clear the builds that are kept.", invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def default(context: typer.Context) -> None:
    """Show where the build cache lies and how large it is; `clear` empties it."""
    if context.invoked_subcommand is None:
        _show()


@app.command()
@guarded
def path() -> int:
    """Print the cache's folder."""
    from cuda_agent.runtime.cache import default_root

    say(str(default_root()))
    return 0


@app.command()
@guarded
def clear() -> int:
    """Remove every build; what is needed again is built again."""
    from cuda_agent.runtime.cache import BuildCache

    cache = BuildCache.from_environment()
    size = sum(entry.bytes for entry in cache.entries())
    count = cache.clear()
    say(f"removed {count} build{'s' * (count != 1)}, {megabytes(size)}, from {cache.root}")
    return 0


@guarded
def _show() -> int:
    from cuda_agent.runtime.cache import BuildCache

    cache = BuildCache.from_environment()
    entries = cache.entries()
    say(f"{cache.root}: {len(entries)} build{'s' * (len(entries) != 1)}, {megabytes(sum(e.bytes for e in entries))}")
    return 0


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"
