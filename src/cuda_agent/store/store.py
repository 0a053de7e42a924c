"""The store: tasks, solutions, verdicts, baselines, runs and the events within a run.

Each method is one transaction; when it has returned, what it wrote is on the disk. A `Store` may be used from many
threads, from many processes at once, and after a fork.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from cuda_agent.errors import UsageError
from cuda_agent.solution import Solution
from cuda_agent.store.database import clear_errors, open_engine, parse_url
from cuda_agent.store.records import Event, Run, RunStatus
from cuda_agent.store.tables import BaselineRow, EventRow, RunRow, SolutionRow, TaskRow, VerdictRow
from cuda_agent.task import Task
from cuda_agent.verdict import Verdict


class Store:
    """`url` is a path, `sqlite:///path` or `postgresql://...`; None means `$CUDA_AGENT_HOME/store.db`.

    Raises UsageError for an unusable URL, a damaged file or a newer schema, and MachineError for a place that cannot
    be written; so do all methods.
    """

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        self.url = parse_url(url)
        self._reader = open_engine(self.url)
        self._writer = self._reader.execution_options(write=True)
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __str__(self) -> str:
        return str(self.url.database) if self.url.drivername == "sqlite" else self.url.render_as_string()

    def close(self) -> None:
        self._reader.dispose()

    # Tasks and solutions

    def save_task(self, task: Task) -> str:
        """The task's id. A task that is there already stays as it is."""
        with self._session(write=True) as session:
            return self._put(session, TaskRow, task)

    def task(self, id: str) -> Task | None:
        with self._session() as session:
            row = session.get(TaskRow, id)
            return None if row is None else Task(row.files, row.name)

    def save_solution(self, solution: Solution) -> str:
        """The solution's id. A solution that is there already stays as it is."""
        with self._session(write=True) as session:
            return self._put(session, SolutionRow, solution)

    def solution(self, id: str) -> Solution | None:
        with self._session() as session:
            row = session.get(SolutionRow, id)
            return None if row is None else Solution(row.files, row.name)

    # Verdicts

    def save_verdict(
        self, verdict: Verdict, task: Task | None = None, solution: Solution | None = None, run: str | None = None
    ) -> Verdict:
        """Stores the verdict with its task and solution; returns it with a new `id` and with `created` filled."""
        names = {"task": verdict.task or (task.id if task else ""), "solution": solution.id if solution else ""}
        names["solution"] = verdict.solution or names["solution"]
        stored = verdict.model_copy(update={**names, "id": secrets.token_hex(6), "created": _now()})
        speedup = stored.speedup
        with self._session(write=True) as session:
            row = VerdictRow(
                id=stored.id,
                task=self._put(session, TaskRow, task) if task else None,
                solution=self._put(session, SolutionRow, solution) if solution else None,
                run=run,
                status=stored.status.value,
                rules=stored.rules,
                precision=stored.precision,
                eager=speedup.eager.median if speedup.eager else None,
                compile=speedup.compile.median if speedup.compile else None,
                created=stored.created,
                record=stored.to_json(),
            )
            session.add(row)
        return stored

    def verdict(self, id: str) -> Verdict | None:
        with self._session() as session:
            record = session.scalar(select(VerdictRow.record).where(VerdictRow.id == id))
            return None if record is None else _verdict(record)

    def verdicts(
        self, *, task: str | None = None, solution: str | None = None, run: str | None = None, limit: int | None = None
    ) -> list[Verdict]:
        """Verdicts by the ids of their task, solution or run, newest first."""
        wanted: list[tuple[ColumnElement[Any] | Any, str | None]] = [
            (VerdictRow.task, task),
            (VerdictRow.solution, solution),
            (VerdictRow.run, run),
        ]
        query = select(VerdictRow.record).order_by(VerdictRow.number.desc()).limit(limit)
        for column, value in wanted:
            if value is not None:
                query = query.where(column == value)
        with self._session() as session:
            return [_verdict(record) for record in session.scalars(query)]

    def count_verdicts(self) -> int:
        with self._session() as session:
            return session.scalar(select(func.count()).select_from(VerdictRow)) or 0

    # Baselines: what the judge measured once and may use again

    def baseline(self, key: str) -> dict[str, Any] | None:
        with self._session() as session:
            return session.scalar(select(BaselineRow.data).where(BaselineRow.key == key))

    def save_baseline(self, key: str, data: Mapping[str, Any]) -> None:
        """Replaces what was stored under `key`."""
        with self._session(write=True) as session:
            values = {"data": dict(data), "created": _now()}
            insert = self._insert(BaselineRow).values(key=key, **values)
            session.execute(insert.on_conflict_do_update(index_elements=["key"], set_=values))

    # Runs and their events

    def create_run(self, kind: str, config: Mapping[str, Any]) -> str:
        """The id of a new run; it begins with the date and the time (UTC)."""
        now = datetime.now(UTC)
        id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        row = RunRow(id=id, kind=kind, status="running", config=dict(config), created=_now(), updated=_now())
        with self._session(write=True) as session:
            session.add(row)
        return id

    def update_run(
        self,
        run: str,
        *,
        status: RunStatus | None = None,
        result: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Changes what is given. Raises UsageError if there is no such run."""
        with self._session(write=True) as session:
            row = _known_run(session, run)
            row.status = status or row.status
            row.result = row.result if result is None else dict(result)
            row.config = row.config if config is None else dict(config)
            row.updated = _now()

    def run(self, id: str) -> Run | None:
        with self._session() as session:
            row = session.scalar(select(RunRow).where(RunRow.id == id))
            return None if row is None else _run(row)

    def runs(self, kind: str | None = None, limit: int | None = None) -> list[Run]:
        """Newest first."""
        query = select(RunRow).order_by(RunRow.number.desc()).limit(limit)
        if kind is not None:
            query = query.where(RunRow.kind == kind)
        with self._session() as session:
            return [_run(row) for row in session.scalars(query)]

    def last_run(self, kind: str | None = None) -> Run | None:
        return next(iter(self.runs(kind, limit=1)), None)

    def append_event(self, run: str, kind: str, payload: Mapping[str, Any]) -> Event:
        """Adds an event behind the others of this run. Raises UsageError if there is no such run."""
        with self._session(write=True) as session:
            _known_run(session, run)
            last = session.scalar(select(func.max(EventRow.number)).where(EventRow.run == run)) or 0
            row = EventRow(run=run, number=last + 1, kind=kind, payload=dict(payload), created=_now())
            session.add(row)
            return _event(row)

    def events(self, run: str, kind: str | None = None) -> list[Event]:
        """In the order in which they were appended."""
        query = select(EventRow).where(EventRow.run == run).order_by(EventRow.number)
        if kind is not None:
            query = query.where(EventRow.kind == kind)
        with self._session() as session:
            return [_event(row) for row in session.scalars(query)]

    # Within

    @contextmanager
    def _session(self, write: bool = False) -> Iterator[Session]:
        if os.getpid() != self._process:
            self._reader.dispose(close=False)  # the connections belong to the parent process
            self._process = os.getpid()
        engine = self._writer if write else self._reader
        with clear_errors(self.url), Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    def _insert(self, table: type[BaselineRow | TaskRow | SolutionRow]) -> sqlite.Insert | postgresql.Insert:
        return sqlite.insert(table) if self.url.drivername == "sqlite" else postgresql.insert(table)

    def _put(self, session: Session, table: type[TaskRow | SolutionRow], noun: Task | Solution) -> str:
        insert = self._insert(table).values(id=noun.id, name=noun.name, files=dict(noun.files), created=_now())
        session.execute(insert.on_conflict_do_nothing())
        return noun.id


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _verdict(record: str) -> Verdict:
    try:
        return Verdict.from_json(record)
    except ValidationError as error:
        reason = error.errors()[0]
        raise UsageError(
            f"a verdict in the store was written by another version of cuda-agent ({reason['loc']}: {reason['msg']}); "
            "use that version, or give another place with --store"
        ) from None


def _known_run(session: Session, id: str) -> RunRow:
    """Locks the run's row, so that events of one run are numbered one after the other in PostgreSQL too."""
    row = session.scalar(select(RunRow).where(RunRow.id == id).with_for_update())
    if row is None:
        raise UsageError(f"the store has no run {id!r}")
    return row


def _run(row: RunRow) -> Run:
    status: Any = row.status
    return Run(row.id, row.kind, status, row.config, row.result, row.created, row.updated)


def _event(row: EventRow) -> Event:
    return Event(row.run, row.number, row.kind, row.payload, row.created)
