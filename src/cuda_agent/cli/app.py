"""All commands in one place, and how the process starts and ends."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

import cuda_agent
from cuda_agent.cli import build, cache, console, doctor, evaluate, optimize, profile, show

app = typer.Typer(
    name="cuda-agent",
    help="A PyTorch module in, a verified faster kernel out.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("optimize")(optimize.optimize)
app.command("evaluate")(evaluate.evaluate)
app.command("profile")(profile.profile)
app.command("build")(build.build)
app.command("show")(show.show)
app.command("doctor")(doctor.doctor)
app.add_typer(cache.app, name="cache")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"cuda-agent {cuda_agent.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A PyTorch module in, a verified faster kernel out."""


def run() -> None:
    """Runs the command that `sys.argv` names and ends the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    console.catch_signals()
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as end:
        if end.code == console.UNUSABLE and console.State.command is None and "--json" in sys.argv:
            evaluate.print_unusable("the command line is not understood; see stderr, or cuda-agent evaluate --help")
        raise
    except KeyboardInterrupt:
        # before a command began
        if "--json" in sys.argv:
            evaluate.print_unusable("interrupted")
        sys.exit(console.INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(console.NOT_CORRECT)
    except OSError as error:
        console.tell_failure(error)
        sys.exit(console.FAILED)
    except Exception:
        traceback.print_exc()
        console.note("this is a fault of cuda-agent; please report it with the lines above", style="bold red")
        sys.exit(console.FAILED)
