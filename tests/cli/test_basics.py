"""Help, versions, places and mistakes on the command line: quick, plain and without a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cuda_agent
from cuda_agent.solution import Solution
from cuda_agent.store import Store
from cuda_agent.task import Task
from cuda_agent.verdict import Interval, Speedup, Status, Verdict

Command = Callable[..., subprocess.CompletedProcess[str]]
VERBS = ("optimize", "evaluate", "build", "show", "doctor", "cache")
VERDICT = Verdict(status=Status.CORRECT, speedup=Speedup(eager=Interval(median=2.0, low=1.9, high=2.1)))


def test_help_names_every_command(command: Command) -> None:
    said = command("--help").stdout
    assert all(verb in said for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_help(command: Command, verb: str) -> None:
    done = command(verb, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"Usage: cuda-agent {verb}") and not done.stderr


def test_importing_the_commands_or_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, cuda_agent, cuda_agent.cli.app\n"
        "print([name for name in ('torch', 'numpy', 'sqlalchemy', 'alembic', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert sorted(cuda_agent.__all__) == sorted(cuda_agent._HOMES)
    assert all(getattr(cuda_agent, name) is not None for name in cuda_agent.__all__)
    with pytest.raises(AttributeError, match=r"no attribute 'optimise'.*optimize"):
        cuda_agent.optimise  # noqa: B018


def test_the_version(command: Command) -> None:
    assert command("--version").stdout == f"cuda-agent {cuda_agent.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["optimise"], ["evaluate"], ["evaluate", "a", "b", "--rules", "none"], ["show", "--limit", "0"]]
)
def test_a_wrong_command_line_ends_with_2(command: Command, arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 2 and not done.stdout and "Error:" in done.stderr and "Traceback" not in done.stderr


def test_doctor_says_what_works(command: Command) -> None:
    done = command("doctor", "--json")
    report = json.loads(done.stdout)
    states = {finding["name"]: finding["state"] for finding in report["findings"]}
    assert done.returncode == 0 and report["ok"], report
    assert states["torch"] == states["g++"] == states["store"] == "ok"
    assert all(finding["hint"] for finding in report["findings"] if finding["state"] == "missing")


def test_doctor_without_a_compiler_says_how_to_get_one(command: Command, tmp_path: Path) -> None:
    done = command("doctor", PATH=str(tmp_path))
    assert done.returncode == 3 and "MISSING g++" in done.stdout and "apt install g++" in done.stdout
    assert "do not work here yet: g++" in done.stdout and "Traceback" not in done.stderr


def test_doctor_names_a_store_that_cannot_be_used(command: Command, tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("no database" * 100)
    done = command("doctor", "--store", tmp_path / "store.db")
    assert done.returncode == 3 and "damaged" in done.stdout


def test_the_cache_is_shown_and_cleared(command: Command, environment: dict[str, str]) -> None:
    assert command("cache", "path").stdout.strip() == environment["CUDA_AGENT_CACHE"]
    assert command("cache").stdout == f"{environment['CUDA_AGENT_CACHE']}: 0 builds, 0.0 MB\n"
    assert command("cache", "clear").stdout.startswith("removed 0 builds")


def test_show_lists_runs_and_verdicts(command: Command, environment: dict[str, str]) -> None:
    assert "is empty" in command("show").stdout
    task = Task.from_source("class Model: ...\ndef get_inputs(): ...", name="thing")
    with Store(Path(environment["CUDA_AGENT_HOME"]) / "store.db") as store:
        run = store.create_run("optimize", {"target": "thing.py"})
        verdict = store.save_verdict(VERDICT, task, Solution.from_source("class ModelNew: ..."), run)
    listed = command("show").stdout
    assert run in listed and verdict.id in listed and "thing.py" in listed and "2.00x eager" in listed
    assert f"cuda-agent optimize --resume {run}" in command("show", run).stdout
    assert command("show", verdict.id).stdout.startswith("correct: 2.00x eager [1.90, 2.10]")
    assert Verdict.from_json(command("show", verdict.id, "--json").stdout) == verdict
    assert json.loads(command("show", run, "--json").stdout)["verdicts"][0]["id"] == verdict.id
    assert json.loads(command("show", "--json").stdout)["runs"][0]["id"] == run


def test_show_reads_a_result_folder(command: Command, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "verdict.json").write_text(VERDICT.to_json())
    (tmp_path / "run" / "report.md").write_text("report")
    done = command("show", tmp_path / "run")
    assert done.stdout.startswith("correct: 2.00x eager") and "report.md: the report" in done.stdout


@pytest.mark.parametrize(("content", "message"), [(None, "holds no verdict.json"), ("{}", "is no verdict")])
def test_show_says_what_is_wrong_with_a_folder(
    command: Command, tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "verdict.json").write_text(content)
    done = command("show", tmp_path)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_show_of_an_unknown_id(command: Command) -> None:
    done = command("show", "nothing")
    assert done.returncode == 2 and "'nothing' is no run, no verdict and no folder" in done.stderr


def test_a_reader_who_has_enough_is_no_error(environment: dict[str, str]) -> None:
    program = Path(sys.executable).with_name("cuda-agent")
    shell = f"{program} doctor | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], env=environment, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and not done.stderr


@pytest.mark.parametrize(("name", "ending"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "SystemExit")])
def test_a_signal_is_not_lost_in_a_library_that_drops_exceptions(name: str, ending: str) -> None:
    script = f"""
import os, signal, time
from pydantic import BaseModel
from cuda_agent.cli.console import catch_signals

class Slow:
    def __eq__(self, other):
        os.kill(os.getpid(), signal.{name})
        return True

class Record(BaseModel, arbitrary_types_allowed=True):
    value: Slow = Slow()

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})

catch_signals()
try:
    if {name == "SIGINT"}:
        Record(value=Slow()).model_dump_json(exclude_defaults=True)
    else:
        Dying()
    print("the call came back", flush=True)
    time.sleep(5)
except BaseException as error:
    print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == f"the call came back\n{ending}\n" and not done.stderr
