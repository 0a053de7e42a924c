"""Brings a database to the schema that this version knows, by the revisions under `migrations/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect

from cuda_agent.errors import UsageError

if TYPE_CHECKING:
    from alembic.config import Config

REVISION = "0001"
"""The newest revision; a database that has it is used without loading Alembic."""

VERSION_TABLE = "cuda_agent_schema"
"""A name of our own: a PostgreSQL database may hold another program's `alembic_version`."""


def is_up_to_date(connection: Connection) -> bool:
    return _revision(connection) == REVISION


def bring_up_to_date(connection: Connection) -> None:
    """Runs the missing revisions within the transaction of `connection`, which keeps other processes out.

    Raises UsageError for a database of a newer version, and for a SQLite file that holds something else.
    """
    revision = _revision(connection)
    if revision == REVISION:
        return
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise UsageError(
            f"the store has schema {revision}, made by a newer cuda-agent; this one knows {REVISION}. "
            "Upgrade cuda-agent, or give another place with --store"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def alembic_config() -> Config:
    from alembic.config import Config

    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def _revision(connection: Connection) -> str | None:
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE in tables:
        row = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").first()
        return None if row is None else str(row[0])
    if tables and connection.dialect.name == "sqlite":
        shown = ", ".join(sorted(tables)[:4])
        raise UsageError(
            f"{connection.engine.url.database} is another program's database (it has the tables {shown}); "
            "nothing was changed. Give another place with --store"
        )
    return None
