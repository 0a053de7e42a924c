"""Opening the database: what a URL means, SQLite's settings, the schema, and errors in one clear line.

SQLite runs in WAL mode with `synchronous=FULL`: what a call has returned survives `kill -9` and a power cut. Every
write starts with `BEGIN IMMEDIATE`, so that two processes wait for each other instead of failing half-way.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from cuda_agent.errors import CudaAgentError, MachineError, UsageError
from cuda_agent.store.schema import bring_up_to_date, is_up_to_date

WAIT_SECONDS = 30.0
"""How long a process waits for another one that writes."""


def default_path() -> Path:
    """`$CUDA_AGENT_HOME/store.db`, by default in `~/.local/share/cuda-agent`."""
    home = os.environ.get("CUDA_AGENT_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".local" / "share" / "cuda-agent") / "store.db"


def parse_url(url: str | os.PathLike[str] | None) -> URL:
    """The database that `url` names: a path, `sqlite:///path` or `postgresql://...`. Raises UsageError."""
    text = str(default_path() if url is None else url)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError("the store's URL cannot be read; it looks like postgresql://user@host/database") from None
    if parsed.drivername == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise UsageError("the store needs a file: give a path, or sqlite:///path")
        return parsed.set(database=str(Path(parsed.database).expanduser().absolute()))
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    raise UsageError(
        f"the store cannot be at {parsed.drivername}://; give a path for SQLite, or postgresql://user@host/database"
    )


def open_engine(url: URL) -> Engine:
    """An engine whose database has the current schema. Raises UsageError or MachineError."""
    with clear_errors(url):
        engine = _sqlite(url) if url.drivername == "sqlite" else _postgresql(url)
        try:
            _update_schema(engine)
        except BaseException:
            engine.dispose()
            raise
    return engine


def _update_schema(engine: Engine) -> None:
    with engine.begin() as connection:
        if is_up_to_date(connection):
            return
    with engine.execution_options(write=True).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7022602)")
        bring_up_to_date(connection)


def _sqlite(url: URL) -> Engine:
    assert url.database
    file = Path(url.database)
    if file.is_dir():
        raise UsageError(f"the store {file} is a folder; name a file, such as {file / 'store.db'}")
    file.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": WAIT_SECONDS})
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    connection = sqlite3.connect(file, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        _switch_to_wal(connection)
    finally:
        connection.close()
    return engine


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Waits by itself: while another process switches, SQLite fails at once whatever its timeout is."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _configure(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # transactions begin where `_begin` says, not where the driver guesses
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgresql(url: URL) -> Engine:
    try:
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    except ModuleNotFoundError:
        raise MachineError(
            "a postgresql:// store needs psycopg, which is not installed: pip install 'cuda-agent[postgres]'"
        ) from None


@contextmanager
def clear_errors(url: URL) -> Iterator[None]:
    """Turns what the database or the file system says into a UsageError or a MachineError of one line."""
    try:
        yield
    except CudaAgentError:
        raise
    except (SQLAlchemyError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, sqlite3.Error):
            raise _sqlite_error(str(url.database), cause) from error
        reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise MachineError(f"the store {url.render_as_string()} cannot be used: {reason}") from error
    except OSError as error:
        where = error.filename or url.database
        raise MachineError(
            f"the store {url.database} cannot be made: {error.strerror}: {where}; "
            "give another place with --store or CUDA_AGENT_HOME"
        ) from error


def _sqlite_error(file: str, error: sqlite3.Error) -> CudaAgentError:
    name = getattr(error, "sqlite_errorname", "")
    elsewhere = "give another place with --store or CUDA_AGENT_HOME"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return UsageError(
            f"the store {file} is damaged or no SQLite database ({error}); nothing was changed. Move it away: "
            f"mv '{file}' '{file}.damaged', and a new one is made; sqlite3 '{file}.damaged' .recover may save its rows"
        )
    if name.startswith("SQLITE_FULL"):
        return MachineError(f"the store {file} cannot grow: the disk is full; make room, or {elsewhere}")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return MachineError(f"the store {file} cannot be written ({error}); {elsewhere}")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return MachineError(f"the store {file} was locked for {WAIT_SECONDS:.0f} s by another process; try again")
    if name.startswith(("SQLITE_IOERR", "SQLITE_PROTOCOL")):
        return MachineError(
            f"the store {file} cannot be read or written ({error}): is the disk full, or a network drive? {elsewhere}"
        )
    return MachineError(f"the store {file} cannot be used: {error}")
