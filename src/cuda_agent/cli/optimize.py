"""`cuda-agent optimize TARGET`: searches for a faster version and shows what is found as it is found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_agent.cli import options
from cuda_agent.cli.console import NOT_CORRECT, OK, guarded, say
from cuda_agent.cli.progress import Progress
from cuda_agent.errors import UsageError

if TYPE_CHECKING:
    from cuda_agent.agent.result import Result


@guarded
def optimize(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="A Python file with Model and get_inputs(), or module:attribute."),
    ] = None,
    policy: Annotated[str, typer.Option(help="Who writes; template is built in and needs no model.")] = "template",
    rules: options.RulesOption = options.Rules.any,
    precision: options.PrecisionOption = options.Precision.fp32,
    mode: options.ModeOption = options.Mode.eval,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="How long it may take (120); with --resume, all that the run may take. At most half a minute of it "
            "is kept for judging the best version again, which takes longer on a busy machine.",
            min=1,
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option(help="What kernels are written in: cpp or triton, as the policy can.")
    ] = "auto",
    out: Annotated[Path, typer.Option(help="The result folder is made in here.", metavar="FOLDER")] = Path("runs"),
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with a run: TARGET is its id, or a file whose newest run counts; default: the last.",
        ),
    ] = False,
    sandbox: options.SandboxOption = options.Sandbox.auto,
    store: options.StoreOption = None,
) -> int:
    """Write a faster version of a module, have it judged, and leave the best one in a folder of its own.

    Exit code: 0 a correct version was found, 1 none, 2 unusable input or invalid task, 3 the machine failed,
    130 interrupted (`--resume` goes on).
    """
    from cuda_agent.api import optimize as search
    from cuda_agent.api import resume as go_on

    with Progress() as progress:
        if resume:
            _only_what_a_run_takes(context)
            result = go_on(target, seconds=seconds, store=store, sandbox=sandbox.value, on_event=progress)
        elif target is None:
            raise UsageError("nothing to optimize: give a Python file, module:attribute, or --resume")
        else:
            chosen = {"rules": rules, "precision": precision, "mode": mode, "sandbox": sandbox}
            settings: dict[str, Any] = {name: option.value for name, option in chosen.items()}
            more: dict[str, Any] = {"seconds": seconds or 120.0, "out": out, "store": store, "on_event": progress}
            result = search(target, policy=policy, backend=backend, **settings, **more)
    return _show(result)


def _only_what_a_run_takes(context: typer.Context) -> None:
    """Raises UsageError: what a run was begun with stays as it is."""
    given = [
        name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    fixed = sorted(set(given) - {"target", "resume", "seconds", "sandbox", "store"})
    if fixed:
        raise UsageError(f"--{fixed[0]} cannot be changed with --resume; a run goes on with what it was begun with")


def _show(result: Result) -> int:
    verdict = result.verdict
    good = verdict is not None and result.faster
    say()
    say(result.headline(), style="bold green" if good else "bold yellow")
    if verdict is not None:
        for flag in verdict.flags:
            say(f"  flag: {flag}")
        say(f"  {_near(result.folder / 'best')}: the solution, which runs on its own")
    say(f"  {_near(result.folder / 'report.md')}: what was tried, the times, how to use it")
    return NOT_CORRECT if verdict is None else OK


def _near(path: Path) -> Path:
    """Relative to where the user is, where that is shorter."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
