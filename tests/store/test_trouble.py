"""Places and files that cannot be used get one clear line, and nothing of a user's is changed."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine

from cuda_agent.errors import MachineError, UsageError
from cuda_agent.store import Store, default_path
from cuda_agent.store.database import parse_url
from cuda_agent.store.schema import REVISION, VERSION_TABLE, alembic_config
from cuda_agent.store.tables import Base
from cuda_agent.verdict import Status, Verdict


def test_the_default_place_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_AGENT_HOME", str(tmp_path / "home"))
    assert default_path() == tmp_path / "home" / "store.db"
    Store().close()
    assert default_path().is_file()
    monkeypatch.delenv("CUDA_AGENT_HOME")
    assert default_path() == Path.home() / ".local/share/cuda-agent/store.db"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", "cannot be at mysql://"),
        ("postgresql://host:port/db", "looks like postgresql://"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_other_urls(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Store(url)


def test_postgresql_urls_get_the_driver_that_we_ship() -> None:
    for given in ("postgresql://u@h/d", "postgres://u@h/d", "postgresql+psycopg://u@h/d"):
        assert parse_url(given).drivername == "postgresql+psycopg"


def test_a_server_that_does_not_answer_is_one_line_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(MachineError) as caught:
        Store(f"postgresql://owner:secret@/db?host={tmp_path}")
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


@contextmanager
def _connect(store: Store) -> Iterator[Connection]:
    engine = create_engine(store.url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_a_newer_schema_is_refused(store: Store, url: str) -> None:
    with _connect(store) as connection, connection.begin():
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(UsageError, match=r"schema 9999.*newer.*Upgrade"):
        Store(url)


def test_a_verdict_of_another_version_is_one_line(store: Store) -> None:
    store.save_verdict(Verdict(status=Status.CORRECT))
    with _connect(store) as connection, connection.begin():
        connection.exec_driver_sql("""UPDATE verdicts SET record = '{"status": "splendid"}'""")
    with pytest.raises(UsageError, match=r"another version.*status"):
        store.verdicts()


def test_the_revisions_give_the_tables_of_the_code(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    assert ScriptDirectory.from_config(alembic_config()).get_current_head() == REVISION
    with _connect(store) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.parametrize("damage", ["text", "zeroed pages", "zeroed header"])
def test_a_damaged_file_is_named_and_kept(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "store.db"
    if damage == "text":
        file.write_text("this is no database\n" * 200)
    else:
        with Store(file) as store:
            store.save_verdict(Verdict(status=Status.CORRECT))
        data = file.read_bytes()
        start = 0 if damage == "zeroed header" else 100
        file.write_bytes(data[:start] + bytes(len(data) - start if start else 100) + (b"" if start else data[100:]))
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"damaged.*mv ") as caught, Store(file) as store:
        store.verdicts()
    assert str(file) in str(caught.value) and file.read_bytes() == before


def test_a_cut_off_file_is_an_error_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with Store(file) as store:
        for _ in range(200):
            store.save_verdict(Verdict(status=Status.CORRECT, message="x" * 500))
    file.write_bytes(file.read_bytes()[:40960])
    before = file.read_bytes()
    with pytest.raises(UsageError, match="damaged"), Store(file) as store:
        store.save_verdict(Verdict(status=Status.CORRECT))
        store.verdicts()
    assert file.read_bytes() == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with Store(tmp_path / "store.db") as store:
        assert store.verdicts() == []


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE songs (name)")
    with pytest.raises(UsageError, match=r"another program.*songs"):
        Store(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is a folder; name a file"):
        Store(tmp_path)


def test_a_place_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match=r"cannot be made.*--store"):
        Store(tmp_path / "file" / "store.db")


def _in_a_small_mount(script: str, options: str) -> str:
    """What `script` prints, run where /mnt is a file system of 1 MiB of our own; it may remount it."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode:
        pytest.skip("a mount of our own needs user namespaces")
    shell = f"mount -t tmpfs -o size=1m none /mnt && {options} exec {sys.executable} -c '{script}'"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", shell], capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def test_a_read_only_folder_is_one_line() -> None:
    script = (
        "from cuda_agent.store import Store\n"
        'try: Store("/mnt/a/store.db")\nexcept Exception as error: print(type(error).__name__, error)\n'
    )
    said = _in_a_small_mount(script, "mount -o remount,ro /mnt && ")
    assert said.startswith("MachineError the store /mnt/a/store.db") and said.count("\n") == 1, said


def test_a_read_only_file_is_one_line() -> None:
    script = (
        'import subprocess\nfrom cuda_agent.store import Store\nStore("/mnt/store.db").close()\n'
        'subprocess.run(["mount", "-o", "remount,ro", "/mnt"])\n'
        'try: Store("/mnt/store.db").create_run("x", {})\n'
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    said = _in_a_small_mount(script, "")
    assert said.startswith("MachineError the store /mnt/store.db cannot be written") and said.count("\n") == 1, said


def test_a_full_disk_is_one_line_and_loses_nothing() -> None:
    script = (
        'from cuda_agent.store import Store\nstore = Store("/mnt/store.db")\nrun = store.create_run("x", {})\nn = 0\n'
        "try:\n"
        '  while n < 1000: store.append_event(run, "x", {"a": "x" * 5000}); n += 1\n'
        "except Exception as error: print(type(error).__name__, error)\n"
        "print(n > 20, len(store.events(run)) - n)\n"
    )
    said = _in_a_small_mount(script, "")
    first, rest = said.split("\n", 1)
    assert first.startswith("MachineError the store /mnt/store.db") and "disk" in first, said
    assert rest == "True 0\n"
