"""The tables. A change here needs a new revision under `migrations/versions/`.

JSON is kept as text: it round-trips exactly (NaN, NUL characters and key order included) in SQLite and in PostgreSQL.
Times are UTC in ISO 8601, so that they sort as text.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Dialect, Double, ForeignKey, Index, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Json = dict[str, Any]


class JsonText(TypeDecorator[Json]):
    """A dictionary as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Json | None, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Json | None:
        return None if value is None else json.loads(value)


class Base(DeclarativeBase):
    type_annotation_map = {Json: JsonText, str: String, float: Double}  # noqa: RUF012


class TaskRow(Base):
    __tablename__ = "tasks"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    files: Mapped[Json]
    created: Mapped[str]


class SolutionRow(Base):
    __tablename__ = "solutions"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    files: Mapped[Json]
    created: Mapped[str]


class RunRow(Base):
    __tablename__ = "runs"
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    status: Mapped[str]
    config: Mapped[Json]
    result: Mapped[Json | None] = mapped_column(JsonText)
    created: Mapped[str]
    updated: Mapped[str]


class EventRow(Base):
    __tablename__ = "events"
    run: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    payload: Mapped[Json]
    created: Mapped[str]


class VerdictRow(Base):
    """The columns beside `record` repeat parts of it, for searching."""

    __tablename__ = "verdicts"
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    task: Mapped[str | None] = mapped_column(ForeignKey("tasks.id"))
    solution: Mapped[str | None] = mapped_column(ForeignKey("solutions.id"))
    run: Mapped[str | None] = mapped_column(ForeignKey("runs.id"), index=True)
    status: Mapped[str]
    rules: Mapped[str]
    precision: Mapped[str]
    eager: Mapped[float | None]
    compile: Mapped[float | None]
    created: Mapped[str]
    record: Mapped[str] = mapped_column(Text)

    __table_args__ = (Index("ix_verdicts_task_solution", "task", "solution"),)


class BaselineRow(Base):
    __tablename__ = "baselines"
    key: Mapped[str] = mapped_column(primary_key=True)
    data: Mapped[Json]
    created: Mapped[str]
