"""Run by Alembic. The product hands its own, locked connection over; a developer gives a URL:
`alembic -x url=sqlite:///scratch.db revision --autogenerate`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from cuda_agent.store.database import parse_url
from cuda_agent.store.schema import VERSION_TABLE
from cuda_agent.store.tables import Base


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        transactional_ddl=True,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with create_engine(parse_url(context.get_x_argument(as_dictionary=True)["url"])).begin() as own:
        migrate(own)
