"""Every store test runs on a real SQLite file and, where its programs are installed, on a real PostgreSQL server."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_agent.store import Store


def _postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def _server_user() -> str | None:
    """PostgreSQL refuses to run as root; None means that we need not change the user."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The folder of the socket of a private server that trusts its user `owner`."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed (/usr/lib/postgresql/*/bin)")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    user = _server_user()
    if os.geteuid() == 0 and (user is None or shutil.which("runuser") is None):
        pytest.skip("PostgreSQL does not run as root, and there is no other user to run it as")
    as_user = ["runuser", "-u", user, "--"] if user else []
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if user:
        shutil.chown(folder, user)
    control = [*as_user, str(programs / "pg_ctl"), "-D", str(folder / "data"), "-s", "-w"]
    quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL}
    try:
        subprocess.run([*control, "init", "-o", "-A trust -U owner --no-sync --locale=C -E UTF8"], **quiet)
        subprocess.run([*control, "start", "-o", f"-k {folder} -F -c listen_addresses=''", "-l", "log"], **quiet)
        yield str(folder)
        subprocess.run([*control, "stop", "-m", "immediate"], **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that does not exist yet."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    import psycopg

    socket = request.getfixturevalue("postgres_server")
    name = f"test_{secrets.token_hex(4)}"
    with psycopg.connect(host=socket, user="owner", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://owner@/{name}?host={socket}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store(url) as store:
        yield store
