"""What was judged and run, kept in one SQLite file or in a PostgreSQL database."""

from cuda_agent.store.database import default_path
from cuda_agent.store.records import Event, Run
from cuda_agent.store.store import Store

__all__ = ["Event", "Run", "Store", "default_path"]
