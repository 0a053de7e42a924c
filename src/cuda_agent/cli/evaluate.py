"""`cuda-agent evaluate TASK SOLUTION`: one verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_agent.cli import options
from cuda_agent.cli.console import FAILED, NOT_CORRECT, OK, UNUSABLE, exit_code, guarded, note, only_json, say, stderr
from cuda_agent.errors import CudaAgentError, TaskError

if TYPE_CHECKING:
    from cuda_agent.verdict import Verdict

_STAGES = {
    "task": "running the reference …",
    "build": "building the solution …",
    "run": "running the solution …",
    "compare": "comparing on secret inputs …",
    "rules": "looking at what ran …",
    "baseline": "timing eager and torch.compile …",
    "time": "timing the solution …",
    "inspect": "looking for invalid accesses …",
}


@guarded
def evaluate(
    task: Annotated[Path, typer.Argument(metavar="TASK", help="A Python file with Model and get_inputs().")],
    solution: Annotated[
        Path, typer.Argument(metavar="SOLUTION", help="A Python file with ModelNew, or a folder with model_new.py.")
    ],
    rules: options.RulesOption = options.Rules.any,
    precision: options.PrecisionOption = options.Precision.fp32,
    protocol: options.ProtocolOption = options.Protocol.strict,
    mode: options.ModeOption = options.Mode.eval,
    careful: Annotated[
        bool, typer.Option("--careful", help="Judge with new seeds over fresh workers until the interval is narrow.")
    ] = False,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Also look for accesses outside of its memory, and for races.")
    ] = False,
    json: options.JsonOption = False,
    sandbox: options.SandboxOption = options.Sandbox.auto,
    device: options.DeviceOption = "cpu",
    store: options.StoreOption = None,
) -> int:
    """Judge a solution: is it right, is it allowed, how fast is it.

    Exit code: 0 correct, 1 not, 2 unusable input or invalid task, 3 the judge or the machine failed, 130 interrupted.
    """

    chosen = {"rules": rules, "precision": precision, "protocol": protocol, "mode": mode, "sandbox": sandbox}
    settings: dict[str, Any] = {name: option.value for name, option in chosen.items()}

    def judge(progress: Callable[[str], None] | None = None) -> Verdict:
        from cuda_agent.api import evaluate

        wanted: dict[str, Any] = {**settings, "careful": careful, "sanitize": sanitize, "device": device}
        return evaluate(task, solution, store=store, progress=progress, **wanted)

    if json:
        return _as_json(judge)
    with stderr().status("starting the judge …") as status:
        verdict = judge(lambda stage: status.update(_STAGES.get(stage, stage)))
    show_verdict(verdict)
    return code_of(verdict)


def code_of(verdict: Verdict) -> int:
    if verdict.correct:
        return OK
    return {"invalid_task": UNUSABLE, "judge_error": FAILED}.get(verdict.status.value, NOT_CORRECT)


def show_verdict(verdict: Verdict) -> None:
    from cuda_agent.cli import render

    say(verdict.headline(), style=render.style(verdict))
    for line in render.details(verdict):
        say(f"  {line}")
    say(f"  {render.identity(verdict)}", style="dim")


def _as_json(judge: Callable[[], Verdict]) -> int:
    """Prints one JSON object, whatever happens; a fault of our own also leaves its traceback on stderr."""
    with only_json() as write:
        try:
            verdict = judge()
            code = code_of(verdict)
        except (Exception, KeyboardInterrupt) as error:
            code = exit_code(error)
            verdict = _without_judgement(error)
            if not isinstance(error, CudaAgentError | KeyboardInterrupt):
                sys.excepthook(type(error), error, error.__traceback__)
            else:
                note(f"error: {verdict.message}")
        write(verdict.to_json())
    return code


def _without_judgement(error: BaseException) -> Verdict:
    """`invalid_task` where the task is at fault; else `judge_error`, since nothing is said about the solution."""
    from cuda_agent.verdict import Status, Verdict

    message = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    if not isinstance(error, CudaAgentError | KeyboardInterrupt):
        message = f"a fault of cuda-agent: {type(error).__name__}: {message}"
    status = Status.INVALID_TASK if isinstance(error, TaskError) else Status.JUDGE_ERROR
    return Verdict(status=status, stage="task", message=message)


def print_unusable(message: str) -> None:
    """The JSON object for a command line that could not be understood."""
    print(_without_judgement(CudaAgentError(message)).to_json())
