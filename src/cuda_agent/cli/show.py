"""`cuda-agent show`: runs and verdicts from the store, or a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_agent.cli import options
from cuda_agent.cli.console import guarded, say
from cuda_agent.errors import UsageError

if TYPE_CHECKING:
    from cuda_agent.store import Run, Store
    from cuda_agent.verdict import Verdict


@guarded
def show(
    what: Annotated[
        str | None, typer.Argument(metavar="[RUN|VERDICT|FOLDER]", help="An id from the list, or a result folder.")
    ] = None,
    json: options.JsonOption = False,
    store: options.StoreOption = None,
    limit: Annotated[int, typer.Option(help="How many rows the lists have.", min=1)] = 10,
) -> int:
    """Show the last runs and verdicts, or one of them."""
    if what is not None and Path(what).exists():
        _folder(Path(what), json)
        return 0
    from cuda_agent.store import Store

    with Store(store) as opened:
        if what is None:
            _lists(opened, json, limit)
        elif run := opened.run(what):
            _run(opened, run, json)
        elif verdict := opened.verdict(what):
            _verdict(verdict, json)
        else:
            raise UsageError(f"{what!r} is no run, no verdict and no folder; `cuda-agent show` lists what {opened} has")
    return 0


def _folder(path: Path, json: bool) -> None:
    """A result folder, or a verdict's file."""
    from pydantic import ValidationError

    from cuda_agent.verdict import Verdict

    file = path / "verdict.json" if path.is_dir() else path
    try:
        verdict = Verdict.from_json(file.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} holds no verdict.json; is it a run's folder?") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise UsageError(f"{file} is no verdict ({reason})") from None
    _verdict(verdict, json)
    if not json:
        for name, meaning in (("best", "the best solution"), ("report.md", "the report")):
            if (path / name).exists():
                say(f"{path / name}: {meaning}")


def _verdict(verdict: Verdict, json: bool) -> None:
    from cuda_agent.cli.evaluate import show_verdict

    if json:
        print(verdict.to_json(indent=2))
    else:
        show_verdict(verdict)


def _lists(store: Store, json: bool, limit: int) -> None:
    runs, verdicts = store.runs(limit=limit), store.verdicts(limit=limit)
    if json:
        _print_json({"runs": [_plain(run) for run in runs], "verdicts": [_json(v) for v in verdicts]})
        return
    if not runs and not verdicts:
        say(f"{store} is empty; `cuda-agent optimize FILE` makes a run, `cuda-agent evaluate TASK SOLUTION` a verdict")
        return
    if runs:
        say("Runs, newest first", style="bold")
    for run in runs:
        say(f"  {run.id}  {run.kind:9}{run.status:12}{run.config.get('target') or run.config.get('name') or ''}")
    if verdicts:
        say("Verdicts, newest first", style="bold")
    for verdict in verdicts:
        say(_row(store, verdict))


def _row(store: Store, verdict: Verdict) -> str:
    task = store.task(verdict.task) if verdict.task else None
    return f"  {verdict.id}  {_when(verdict.created)}  {(task.name if task else '?')[:24]:24}  {verdict.headline()}"


def _run(store: Store, run: Run, json: bool) -> None:
    verdicts = store.verdicts(run=run.id)
    if json:
        _print_json({**_plain(run), "verdicts": [_json(v) for v in verdicts]})
        return
    say(f"{run.kind} {run.id}: {run.status}", style="bold")
    say(f"  began {_when(run.created)}, last change {_when(run.updated)} (UTC)")
    for name, value in run.config.items():
        say(f"  {name}: {value}")
    for name, value in (run.result or {}).items():
        say(f"  result: {name}: {value}")
    say("Verdicts, oldest first", style="bold")
    for verdict in reversed(verdicts):
        say(f"  {verdict.id}  {_when(verdict.created)}  {verdict.headline()}")
    if run.status in ("running", "interrupted"):
        say(f"go on with it: cuda-agent optimize --resume {run.id}")


def _when(created: str) -> str:
    return created[:19].replace("T", " ")


def _plain(run: Run) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(run)


def _json(verdict: Verdict) -> object:
    import json

    return json.loads(verdict.to_json())


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, indent=2))
