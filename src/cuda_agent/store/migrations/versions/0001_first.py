"""Tasks, solutions, verdicts, baselines, runs and their events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    for table in ("tasks", "solutions"):
        op.create_table(
            table,
            sa.Column("id", sa.String(), primary_key=True),
            sa.Column("name", sa.String(), nullable=False),
            sa.Column("files", sa.Text(), nullable=False),
            sa.Column("created", sa.String(), nullable=False),
        )
    op.create_table(
        "runs",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False, unique=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("created", sa.String(), nullable=False),
        sa.Column("updated", sa.String(), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("run", sa.String(), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created", sa.String(), nullable=False),
    )
    op.create_table(
        "verdicts",
        sa.Column("number", sa.Integer(), primary_key=True),
        sa.Column("id", sa.String(), nullable=False, unique=True),
        sa.Column("task", sa.String(), sa.ForeignKey("tasks.id"), nullable=True),
        sa.Column("solution", sa.String(), sa.ForeignKey("solutions.id"), nullable=True),
        sa.Column("run", sa.String(), sa.ForeignKey("runs.id"), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("rules", sa.String(), nullable=False),
        sa.Column("precision", sa.String(), nullable=False),
        sa.Column("eager", sa.Double(), nullable=True),
        sa.Column("compile", sa.Double(), nullable=True),
        sa.Column("created", sa.String(), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
    )
    op.create_index("ix_verdicts_run", "verdicts", ["run"])
    op.create_index("ix_verdicts_task_solution", "verdicts", ["task", "solution"])
    op.create_table(
        "baselines",
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created", sa.String(), nullable=False),
    )


def downgrade() -> None:
    for table in ("baselines", "verdicts", "events", "runs", "solutions", "tasks"):
        op.drop_table(table)
