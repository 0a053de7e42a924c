"""Alembic's folder: how the schema came to be, one revision a file."""
